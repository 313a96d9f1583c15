#include <cstdio>
#include <cstring>

#include "memory.hpp"

namespace fake_hip {
namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kUnknown = 999;

thread_local int current_device = 0;

bool IsDevice(State& state, int device) { return device >= 0 && device < state.settings.devices; }

/// Memory of the current device; aborts where it is another's.
std::byte* OnDevice(State& state, const char* function, const void* memory, size_t bytes) {
  uint64_t offset = 0;
  const Allocation* const allocation = Find(state, memory, bytes, offset);
  if (allocation == nullptr) Abort(function, "the range is no memory of a GPU");
  if (allocation->device != current_device) Abort(function, "another GPU is current");
  return allocation->pages + kHead + offset;
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
  if (!IsDevice(state, device)) return kInvalidDevice;
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
  if (kind != 1 && kind != 2) return kInvalidValue;
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
  return Fails(state) ? kUnknown : 0;
}

const char* hipGetErrorName(int error) {
  return error == kOutOfMemory ? "hipErrorOutOfMemory" : "hipErrorUnknown";
}
const char* hipGetErrorString(int error) { return error == kOutOfMemory ? "out of memory" : "unknown error"; }

}  // extern "C"
