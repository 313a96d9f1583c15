#include "dma/cuda_driver.hpp"

#include <dlfcn.h>

#include <optional>

namespace softhca::cuda {
namespace {

template <class Function>
bool Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Driver> Load(void* library) {
  Driver driver{};
  const auto find = [library](const char* name, auto& function) { return Find(library, name, function); };
  const bool complete =
      find("cuPointerGetAttribute", driver.pointer_get_attribute) && find("cuDeviceGet", driver.device_get) &&
      find("cuDevicePrimaryCtxRetain", driver.context_retain) &&
      find("cuDevicePrimaryCtxRelease_v2", driver.context_release) &&
      find("cuCtxPushCurrent_v2", driver.context_push) && find("cuCtxPopCurrent_v2", driver.context_pop) &&
      find("cuThreadExchangeStreamCaptureMode", driver.exchange_capture_mode) &&
      find("cuMemHostAlloc", driver.host_alloc) && find("cuMemFreeHost", driver.host_free) &&
      find("cuStreamCreate", driver.stream_create) && find("cuStreamDestroy_v2", driver.stream_destroy) &&
      find("cuStreamSynchronize", driver.stream_synchronize) &&
      find("cuStreamWaitEvent", driver.stream_wait_event) && find("cuEventCreate", driver.event_create) &&
      find("cuEventRecord", driver.event_record) && find("cuEventDestroy_v2", driver.event_destroy) &&
      find("cuMemcpyHtoDAsync_v2", driver.copy_to_device) &&
      find("cuMemcpyDtoHAsync_v2", driver.copy_to_host) &&
      find("cuStreamWriteValue32_v2", driver.write_word_32) &&
      find("cuStreamWriteValue64_v2", driver.write_word_64);
  return complete ? std::optional(driver) : std::nullopt;
}

}  // namespace

const Driver* Driver::Loaded() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) return nullptr;
  static const std::optional<Driver> driver = Load(library);
  return driver ? &*driver : nullptr;
}

}  // namespace softhca::cuda
