#include "cuda_driver.hpp"

#include <dlfcn.h>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";
constexpr char kInstall[] =
    "Install the NVIDIA driver, 535 or later, and in a container pass the GPU on to it";

template <class Function>
void Find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(library, name));
  if (function == nullptr) throw Error("use", kLibrary, std::string("it has no ") + name, kInstall);
}

CudaDriver LoadFunctions() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw Error("load", kLibrary, dlerror(), kInstall);
  CudaDriver driver{};
  Find(library, "cuInit", driver.Init);
  Find(library, "cuGetErrorName", driver.GetErrorName);
  Find(library, "cuGetErrorString", driver.GetErrorString);
  Find(library, "cuDeviceGetCount", driver.DeviceGetCount);
  Find(library, "cuDeviceGet", driver.DeviceGet);
  Find(library, "cuDeviceGetName", driver.DeviceGetName);
  Find(library, "cuDeviceGetPCIBusId", driver.DeviceGetPCIBusId);
  Find(library, "cuDeviceGetAttribute", driver.DeviceGetAttribute);
  Find(library, "cuDevicePrimaryCtxRetain", driver.DevicePrimaryCtxRetain);
  Find(library, "cuDevicePrimaryCtxRelease_v2", driver.DevicePrimaryCtxRelease);
  Find(library, "cuCtxPushCurrent_v2", driver.CtxPushCurrent);
  Find(library, "cuCtxPopCurrent_v2", driver.CtxPopCurrent);
  Find(library, "cuStreamCreate", driver.StreamCreate);
  Find(library, "cuStreamDestroy_v2", driver.StreamDestroy);
  Find(library, "cuStreamSynchronize", driver.StreamSynchronize);
  Find(library, "cuMemAlloc_v2", driver.MemAlloc);
  Find(library, "cuMemFree_v2", driver.MemFree);
  Find(library, "cuMemcpyHtoDAsync_v2", driver.MemcpyHtoDAsync);
  Find(library, "cuMemcpyDtoHAsync_v2", driver.MemcpyDtoHAsync);
  Find(library, "cuMemsetD8Async", driver.MemsetD8Async);
  Find(library, "cuMemHostRegister_v2", driver.MemHostRegister);
  Find(library, "cuMemHostUnregister", driver.MemHostUnregister);
  Find(library, "cuMemHostGetDevicePointer_v2", driver.MemHostGetDevicePointer);
  Find(library, "cuPointerGetAttribute", driver.PointerGetAttribute);
  Find(library, "cuPointerSetAttribute", driver.PointerSetAttribute);
  Find(library, "cuMemGetHandleForAddressRange", driver.MemGetHandleForAddressRange);
  Find(library, "cuMemRetainAllocationHandle", driver.MemRetainAllocationHandle);
  Find(library, "cuMemRelease", driver.MemRelease);
  Find(library, "cuIpcGetMemHandle", driver.IpcGetMemHandle);
  Find(library, "cuIpcOpenMemHandle_v2", driver.IpcOpenMemHandle);
  Find(library, "cuIpcCloseMemHandle", driver.IpcCloseMemHandle);
  Find(library, "cuMemExportToShareableHandle", driver.MemExportToShareableHandle);
  Find(library, "cuMemImportFromShareableHandle", driver.MemImportFromShareableHandle);
  Find(library, "cuMemAddressReserve", driver.MemAddressReserve);
  Find(library, "cuMemAddressFree", driver.MemAddressFree);
  Find(library, "cuMemMap", driver.MemMap);
  Find(library, "cuMemUnmap", driver.MemUnmap);
  Find(library, "cuMemSetAccess", driver.MemSetAccess);
  return driver;
}

const CudaDriver& Loaded() {
  static const CudaDriver driver = LoadFunctions();  // where it throws, the next call tries again
  return driver;
}

}  // namespace

const CudaDriver& CudaDriver::Load() {
  const CudaDriver& driver = Loaded();
  driver.Check(driver.Init(0), "start", kLibrary,
               "Check that nvidia-smi lists a GPU and that this user may open /dev/nvidia*");
  return driver;
}

const CudaDriver* CudaDriver::FindLoaded() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  dlclose(library);  // whoever loaded it keeps it
  int count = 0;
  auto* const get_count = reinterpret_cast<decltype(DeviceGetCount)>(dlsym(library, "cuDeviceGetCount"));
  if (get_count == nullptr) return nullptr;
  const int result = get_count(&count);
  if (result == kCudaNotInitialized || result == kCudaNoDevice) return nullptr;
  try {
    return &Loaded();       // also where it fails: else memory of a GPU would seem to be the host's
  } catch (const Error&) {  // who uses no GPU need not know that the driver is too old
    return nullptr;
  }
}

std::string CudaDriver::Words(int result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &text);
  if (name == nullptr || text == nullptr) return "CUDA error " + std::to_string(result);
  return std::string(text) + " (" + name + ")";
}

void CudaDriver::Check(int result, const char* step, const std::string& object, const char* remedy) const {
  if (result != 0) throw Error(step, object, Words(result), remedy);
}

}  // namespace warpverbs::host
