#include "dma/cuda_driver.hpp"

#include <dlfcn.h>

#include <optional>

namespace softhca::cuda {
namespace {

template <class Function>
void** Slot(Function*& function) {
  return reinterpret_cast<void**>(&function);
}

std::optional<Driver> Load(void* library) {
  Driver driver{};
  const struct {
    const char* name;
    void** function;
  } needed[] = {
      {"cuPointerGetAttribute", Slot(driver.pointer_get_attribute)},
      {"cuDeviceGet", Slot(driver.device_get)},
      {"cuDevicePrimaryCtxRetain", Slot(driver.context_retain)},
      {"cuDevicePrimaryCtxRelease_v2", Slot(driver.context_release)},
      {"cuCtxPushCurrent_v2", Slot(driver.context_push)},
      {"cuCtxPopCurrent_v2", Slot(driver.context_pop)},
      {"cuThreadExchangeStreamCaptureMode", Slot(driver.exchange_capture_mode)},
      {"cuMemHostAlloc", Slot(driver.host_alloc)},
      {"cuMemFreeHost", Slot(driver.host_free)},
      {"cuStreamCreate", Slot(driver.stream_create)},
      {"cuStreamDestroy_v2", Slot(driver.stream_destroy)},
      {"cuStreamSynchronize", Slot(driver.stream_synchronize)},
      {"cuStreamWaitEvent", Slot(driver.stream_wait_event)},
      {"cuEventCreate", Slot(driver.event_create)},
      {"cuEventRecord", Slot(driver.event_record)},
      {"cuEventDestroy_v2", Slot(driver.event_destroy)},
      {"cuMemcpyHtoDAsync_v2", Slot(driver.copy_to_device)},
      {"cuMemcpyDtoHAsync_v2", Slot(driver.copy_to_host)},
      {"cuStreamWriteValue32_v2", Slot(driver.write_word_32)},
      {"cuStreamWriteValue64_v2", Slot(driver.write_word_64)},
  };
  for (const auto& [name, function] : needed) {
    *function = dlsym(library, name);
    if (*function == nullptr) return std::nullopt;
  }
  return driver;
}

}  // namespace

const Driver* Driver::Loaded() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOLOAD | RTLD_NOW);
  if (library == nullptr) return nullptr;
  static const std::optional<Driver> driver = Load(library);
  return driver ? &*driver : nullptr;
}

}  // namespace softhca::cuda
