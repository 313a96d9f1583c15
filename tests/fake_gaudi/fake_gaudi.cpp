#include "fake_gaudi.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace fake_gaudi {
namespace {

struct Allocation {
  int device = -1;
  int file = -1;
  uint64_t bytes = 0;
  std::byte* pages = nullptr;
  uint64_t address = 0;  // device address, 0 if not mapped
};

struct State {
  std::mutex mutex;
  Settings settings;
  std::map<int, int> open;  // device number by descriptor
  std::map<uint64_t, Allocation> allocations;
  uint64_t next_handle = 1;
  uint64_t next_address = 0x1001001800000000;
};

State& TheState() {
  static auto* const state = new State;
  return *state;
}

[[noreturn]] void Abort(const char* function, const char* misuse) {
  std::fprintf(stderr, "fake_gaudi: %s: %s.\n", function, misuse);
  std::abort();
}

bool Fails(State& state) { return state.settings.fail_call > 0 && --state.settings.fail_call == 0; }

void CheckDevice(State& state, const char* function, int device) {
  if (state.open.count(device) == 0) Abort(function, "the device is not open");
}

Allocation* FindMapped(State& state, uint64_t address) {
  for (auto& [handle, allocation] : state.allocations) {
    if (allocation.address != 0 && address - allocation.address < allocation.bytes) return &allocation;
  }
  return nullptr;
}

std::string AddressOf(int number) { return "0000:" + std::to_string(33 + number) + ":00.0"; }

int ExportAt(State& state, uint64_t address, uint64_t bytes, uint32_t flags) {
  const Allocation* const allocation = FindMapped(state, address);
  if (allocation == nullptr || allocation->address != address || bytes > allocation->bytes) return -EINVAL;
  if (bytes % 4096 != 0 || flags != (O_RDWR | O_CLOEXEC)) return -EINVAL;
  return fcntl(allocation->file, F_DUPFD_CLOEXEC, 0);
}

}  // namespace

void Configure(const Settings& settings) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  state.settings = settings;
}

bool FailurePending() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.settings.fail_call > 0;
}

Held HeldNow() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  Held held{.devices = static_cast<int>(state.open.size()),
            .allocations = static_cast<int>(state.allocations.size())};
  for (const auto& [handle, allocation] : state.allocations) held.mappings += allocation.address != 0;
  return held;
}

std::byte* Reach(const void* device_memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  const auto address = reinterpret_cast<uint64_t>(device_memory);
  const Allocation* const allocation = FindMapped(state, address);
  if (allocation == nullptr) Abort("Reach", "nothing is mapped there");
  return allocation->pages + (address - allocation->address);
}

}  // namespace fake_gaudi

using namespace fake_gaudi;

// Prototypes are those of hl-thunk in HabanaAI/HCL.
extern "C" {

int hlthunk_open(int, const char* pci_address) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return -EIO;
  bool busy = false;
  for (int number = 0; number < state.settings.devices; ++number) {
    if (pci_address != nullptr && AddressOf(number) != pci_address) continue;
    busy = false;
    for (const auto& [descriptor, open] : state.open) busy = busy || open == number;
    if (busy) continue;
    const int descriptor = memfd_create("gaudi", MFD_CLOEXEC);
    state.open[descriptor] = number;
    return descriptor;
  }
  return busy ? -EBUSY : -ENODEV;
}

int hlthunk_close(int device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  for (const auto& [handle, allocation] : state.allocations) {
    if (allocation.device == device) Abort(__func__, "the program still holds memory");
  }
  state.open.erase(device);
  return close(device);
}

int hlthunk_get_pci_bus_id_from_fd(int device, char* text, int bytes) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  if (Fails(state)) return -EIO;
  std::snprintf(text, static_cast<size_t>(bytes), "%s", AddressOf(state.open[device]).c_str());
  return 0;
}

uint64_t hlthunk_device_memory_alloc(int device, uint64_t bytes, uint64_t, bool, bool) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  constexpr uint64_t kAll = uint64_t{64} << 20;
  if (Fails(state) || bytes == 0 || bytes > kAll) return 0;
  Allocation allocation{.device = device, .file = memfd_create("gaudi_memory", MFD_CLOEXEC), .bytes = bytes};
  if (ftruncate(allocation.file, static_cast<off_t>(bytes)) != 0) Abort(__func__, "ftruncate() failed");
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.file, 0);
  if (pages == MAP_FAILED) {
    close(allocation.file);
    return 0;
  }
  std::memset(pages, 0xa5, bytes);
  allocation.pages = static_cast<std::byte*>(pages);
  state.allocations[state.next_handle] = allocation;
  return state.next_handle++;
}

int hlthunk_device_memory_free(int device, uint64_t handle) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  const auto found = state.allocations.find(handle);
  if (found == state.allocations.end()) Abort(__func__, "no such memory is allocated");
  if (found->second.address != 0) Abort(__func__, "the memory is still mapped");
  munmap(found->second.pages, found->second.bytes);
  close(found->second.file);
  state.allocations.erase(found);
  return 0;
}

uint64_t hlthunk_device_memory_map(int device, uint64_t handle, uint64_t) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  const auto found = state.allocations.find(handle);
  if (Fails(state) || found == state.allocations.end()) return 0;
  found->second.address = state.next_address;
  state.next_address += uint64_t{1} << 32;
  return found->second.address;
}

int hlthunk_memory_unmap(int device, uint64_t address) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  Allocation* const allocation = FindMapped(state, address);
  if (allocation == nullptr || allocation->address != address) Abort(__func__, "nothing is mapped there");
  allocation->address = 0;
  return 0;
}

int hlthunk_device_memory_export_dmabuf_fd(int device, uint64_t address, uint64_t bytes, uint32_t flags) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  if (Fails(state)) return -EIO;
  return state.settings.mapped_export ? -EPERM : ExportAt(state, address, bytes, flags);
}

int hlthunk_device_mapped_memory_export_dmabuf_fd(int device, uint64_t address, uint64_t bytes,
                                                  uint64_t offset, uint32_t flags) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  CheckDevice(state, __func__, device);
  if (Fails(state)) return -EIO;
  return state.settings.mapped_export && offset == 0 ? ExportAt(state, address, bytes, flags) : -EPERM;
}

}  // extern "C"
