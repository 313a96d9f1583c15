#include <cstdio>
#include <cstring>
#include <utility>

#include "memory.hpp"

namespace fake_hip {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kNotReady = 600, kUnknown = 999;
constexpr int kNeverRecorded = -2;  // an event's number of queries that find its stream busy; -1: all

thread_local int current_device = 0;
thread_local int last_error = 0;

/// Keeps an error for hipGetLastError().
int Noted(int error) {
  if (error != 0) last_error = error;
  return error;
}

struct PointerAttributes {  // hipPointerAttribute_t
  int type;
  int device;
  void* device_pointer;
  void* host_pointer;
  int is_managed;
  unsigned flags;
};

bool IsDevice(State& state, int device) { return device >= 0 && device < state.settings.devices; }

/// Returns the host pointer for memory of the current device. Aborts on memory of another device.
std::byte* OnDevice(State& state, const char* function, const void* memory, size_t bytes) {
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, memory, bytes, offset);
  if (allocation == nullptr) Abort(function, "the range is not GPU memory");
  if (allocation->device != current_device) Abort(function, "another GPU is current");
  return allocation->pages + kHead + offset;
}

/// Copies between devices. The copy happens only when the program waits for it, as on a real GPU.
void CopyLater(State& state, const void* to, const void* from, size_t bytes) {
  uint64_t offset = 0;
  const Allocation* const target = Find(state, to, bytes, offset);
  if (target == nullptr) Abort("hipMemcpy", "the range is not GPU memory");
  std::byte* const to_page = target->pages + kHead + offset;
  const std::byte* const from_page = OnDevice(state, "hipMemcpy", from, bytes);
  if (to_page < from_page + bytes && from_page < to_page + bytes) Abort("hipMemcpy", "the ranges overlap");
  state.later = [=] { std::memcpy(to_page, from_page, bytes); };
}

/// Executes the pending copies.
void Finish(State& state) {
  if (state.later) std::exchange(state.later, nullptr)();
}

}  // namespace

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) { current_device = device; }

}  // namespace fake_hip

using namespace fake_hip;

// Prototypes are those of include/hip/hip_runtime_api.h in ROCm/HIP.
extern "C" {

int hipGetDeviceCount(int* count) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  constexpr int kNoDevice = 100;
  *count = state.settings.devices;
  return *count == 0 ? kNoDevice : 0;
}

int hipGetDevice(int* device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return kUnknown;
  *device = current_device;
  return 0;
}

int hipSetDevice(int device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (!IsDevice(state, device)) return Noted(kInvalidDevice);
  if (device != current_device && Fails(state)) return kUnknown;
  current_device = device;
  return 0;
}

int hipDeviceGetPCIBusId(char* text, int bytes, int device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (!IsDevice(state, device)) return kInvalidDevice;
  if (Fails(state)) return kUnknown;
  std::snprintf(text, static_cast<size_t>(bytes), "0000:c%d:00.0", device + 1);
  return 0;
}

int hipExtMallocWithFlags(void** memory, size_t bytes, unsigned flags) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  constexpr uint64_t kAll = uint64_t{64} << 20;
  if (flags > 3 || bytes == 0) return kInvalidValue;
  if (Fails(state) || bytes > kAll) return kOutOfMemory;
  state.last_flags = flags;
  *memory = reinterpret_cast<void*>(Allocate(state, current_device, bytes));
  return 0;
}

int hipFree(void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  Release(state, reinterpret_cast<uint64_t>(memory));
  return 0;
}

int hipMemcpy(void* to, const void* from, size_t bytes, int kind) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return kUnknown;
  if (kind < 1 || kind > 3) return kInvalidValue;
  if (kind == 3) {
    CopyLater(state, to, from, bytes);
    return 0;
  }
  std::memcpy(kind == 1 ? OnDevice(state, __func__, to, bytes) : to,
              kind == 2 ? OnDevice(state, __func__, from, bytes) : from, bytes);
  return 0;
}

int hipMemset(void* memory, int value, size_t bytes) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return kUnknown;
  std::memset(OnDevice(state, __func__, memory, bytes), value, bytes);
  return 0;
}

int hipStreamSynchronize(void*) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  Finish(state);
  return Fails(state) ? kUnknown : 0;
}

int hipEventCreateWithFlags(void** event, unsigned flags) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  constexpr unsigned kReleaseToSystem = 0x80000000;
  if ((flags & kReleaseToSystem) == 0) Abort(__func__, "a NIC would not see earlier writes");
  if (Fails(state)) return Noted(kUnknown);
  *event = new int(kNeverRecorded);
  ++state.events;
  return 0;
}

int hipEventRecord(int* event, void*) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return Noted(kUnknown);
  *event = state.settings.busy_looks;
  return 0;
}

int hipEventQuery(int* event) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  ++state.event_looks;
  if (*event == kNeverRecorded) Abort(__func__, "it was never recorded");
  if (Fails(state)) return Noted(kUnknown);
  if (*event != 0) {
    if (*event > 0) --*event;
    return Noted(kNotReady);
  }
  Finish(state);
  return 0;
}

int hipEventDestroy(int* event) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  --state.events;
  delete event;
  return 0;
}

int hipPointerGetAttributes(PointerAttributes* attributes, const void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (Fails(state)) return Noted(kUnknown);
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, memory, 1, offset);
  if (allocation == nullptr) return Noted(kInvalidValue);
  *attributes = {.type = state.settings.memory_type,
                 .device = allocation->device,
                 .device_pointer = const_cast<void*>(memory),
                 .host_pointer = nullptr,
                 .is_managed = 0,
                 .flags = 0};
  return 0;
}

int hipPointerGetAttribute(void* value, int attribute, void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  constexpr int kBufferId = 7;
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, memory, 1, offset);
  if (Fails(state)) return Noted(kUnknown);
  if (allocation == nullptr || attribute != kBufferId) return Noted(kInvalidValue);
  std::memcpy(value, &allocation->id, sizeof allocation->id);
  return 0;
}

int hipMemGetAddressRange(void** base, size_t* bytes, void* memory) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, memory, 1, offset);
  if (Fails(state)) return Noted(kUnknown);
  if (allocation == nullptr) return Noted(kInvalidValue);
  *base = static_cast<std::byte*>(memory) - offset;
  *bytes = allocation->bytes;
  return 0;
}

int hipPeekAtLastError() { return last_error; }

int hipGetLastError() { return std::exchange(last_error, 0); }

const char* hipGetErrorName(int error) {
  return error == kOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorUnknown";
}
const char* hipGetErrorString(int error) { return error == kOutOfMemory ? "out of memory" : "unknown error"; }

}  // extern "C"
