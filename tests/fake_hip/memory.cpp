#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

namespace fake_hip {

State& TheState() {
  static auto* const state = new State;
  return *state;
}

void Abort(const char* function, const char* misuse) {
  std::fprintf(stderr, "fake_hip: %s: %s.\n", function, misuse);
  std::abort();
}

bool Fails(State& state) { return state.settings.fail_call > 0 && --state.settings.fail_call == 0; }

uint64_t Allocate(State& state, int device, uint64_t bytes) {
  std::map<uint64_t, Allocation> entry{{0, {}}};  // allocates first: nothing below may fail half-way
  Allocation allocation{.device = device,
                        .file = memfd_create("hip_memory", MFD_CLOEXEC),
                        .bytes = bytes,
                        .id = ++state.last_id};
  if (ftruncate(allocation.file, static_cast<off_t>(kHead + bytes)) != 0)
    Abort("Allocate", "ftruncate() failed");
  void* const pages = mmap(nullptr, kHead + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.file, 0);
  void* const address = state.settings.peer_direct
                            ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation.file, kHead)
                            : mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || address == MAP_FAILED) Abort("Allocate", "mmap() failed");
  std::memset(pages, 0xa5, kHead + bytes);
  allocation.pages = static_cast<std::byte*>(pages);
  auto node = entry.extract(0);
  node.key() = reinterpret_cast<uint64_t>(address);
  node.mapped() = allocation;
  state.allocations.insert(std::move(node));
  return reinterpret_cast<uint64_t>(address);
}

void Release(State& state, uint64_t address) {
  const auto found = state.allocations.find(address);
  if (found == state.allocations.end()) Abort("hipFree", "no such memory is allocated");
  munmap(found->second.pages, kHead + found->second.bytes);
  munmap(reinterpret_cast<void*>(address), found->second.bytes);
  close(found->second.file);
  state.allocations.erase(found);
}

const Allocation* Find(State& state, const void* memory, uint64_t bytes, uint64_t& offset) {
  const auto address = reinterpret_cast<uint64_t>(memory);
  for (const auto& [start, allocation] : state.allocations) {
    offset = address - start;
    if (offset < allocation.bytes && bytes <= allocation.bytes - offset) return &allocation;
  }
  return nullptr;
}

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

int HeldNow() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return static_cast<int>(state.allocations.size());
}

int EventsNow() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.events;
}

int EventLooks() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.event_looks;
}

unsigned LastFlags() {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  return state.last_flags;
}

std::byte* Reach(const void* device_memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, device_memory, 1, offset);
  if (allocation == nullptr) Abort("Reach", "nothing is allocated there");
  return allocation->pages + kHead + offset;
}

}  // namespace fake_hip
