#include "gpu/cuda_driver.hpp"

#include <dlfcn.h>

#include <array>

#include "gpu/shared_library.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";
constexpr char kInstall[] =
    "Install the NVIDIA driver, 535 or later, and in a container pass the GPU through to it";

CudaDriver LoadFunctions() {
  const SharedLibrary library(kLibrary, std::array{kLibrary}, kInstall);
  CudaDriver driver{};
  library.Find("cuInit", driver.Init);
  library.Find("cuGetErrorName", driver.GetErrorName);
  library.Find("cuGetErrorString", driver.GetErrorString);
  library.Find("cuDriverGetVersion", driver.DriverGetVersion);
  library.Find("cuDeviceGetCount", driver.DeviceGetCount);
  library.Find("cuDeviceGet", driver.DeviceGet);
  library.Find("cuDeviceGetName", driver.DeviceGetName);
  library.Find("cuDeviceGetPCIBusId", driver.DeviceGetPCIBusId);
  library.Find("cuDeviceGetAttribute", driver.DeviceGetAttribute);
  library.Find("cuDevicePrimaryCtxRetain", driver.DevicePrimaryCtxRetain);
  library.Find("cuDevicePrimaryCtxRelease_v2", driver.DevicePrimaryCtxRelease);
  library.Find("cuCtxPushCurrent_v2", driver.CtxPushCurrent);
  library.Find("cuCtxPopCurrent_v2", driver.CtxPopCurrent);
  library.Find("cuStreamCreate", driver.StreamCreate);
  library.Find("cuStreamDestroy_v2", driver.StreamDestroy);
  library.Find("cuStreamSynchronize", driver.StreamSynchronize);
  library.Find("cuStreamBatchMemOp_v2", driver.StreamBatchMemOp);
  library.Find("cuEventCreate", driver.EventCreate);
  library.Find("cuEventRecord", driver.EventRecord);
  library.Find("cuEventQuery", driver.EventQuery);
  library.Find("cuEventDestroy_v2", driver.EventDestroy);
  library.FindIfThere("cuCtxRecordEvent", driver.CtxRecordEvent);
  library.Find("cuFlushGPUDirectRDMAWrites", driver.FlushGPUDirectRDMAWrites);
  library.Find("cuMemAlloc_v2", driver.MemAlloc);
  library.Find("cuMemFree_v2", driver.MemFree);
  library.Find("cuMemcpyHtoDAsync_v2", driver.MemcpyHtoDAsync);
  library.Find("cuMemcpyDtoHAsync_v2", driver.MemcpyDtoHAsync);
  library.Find("cuMemcpyDtoDAsync_v2", driver.MemcpyDtoDAsync);
  library.Find("cuMemcpyPeerAsync", driver.MemcpyPeerAsync);
  library.Find("cuMemsetD8Async", driver.MemsetD8Async);
  library.Find("cuMemHostRegister_v2", driver.MemHostRegister);
  library.Find("cuMemHostUnregister", driver.MemHostUnregister);
  library.Find("cuMemHostGetDevicePointer_v2", driver.MemHostGetDevicePointer);
  library.Find("cuPointerGetAttribute", driver.PointerGetAttribute);
  library.Find("cuPointerSetAttribute", driver.PointerSetAttribute);
  library.Find("cuMemGetHandleForAddressRange", driver.MemGetHandleForAddressRange);
  library.Find("cuMemRetainAllocationHandle", driver.MemRetainAllocationHandle);
  library.Find("cuMemRelease", driver.MemRelease);
  library.Find("cuIpcGetMemHandle", driver.IpcGetMemHandle);
  library.Find("cuIpcOpenMemHandle_v2", driver.IpcOpenMemHandle);
  library.Find("cuIpcCloseMemHandle", driver.IpcCloseMemHandle);
  library.Find("cuMemExportToShareableHandle", driver.MemExportToShareableHandle);
  library.Find("cuMemImportFromShareableHandle", driver.MemImportFromShareableHandle);
  library.Find("cuMemAddressReserve", driver.MemAddressReserve);
  library.Find("cuMemAddressFree", driver.MemAddressFree);
  library.Find("cuMemMap", driver.MemMap);
  library.Find("cuMemUnmap", driver.MemUnmap);
  library.Find("cuMemSetAccess", driver.MemSetAccess);
  return driver;
}

const CudaDriver& Loaded() {
  static const CudaDriver driver = LoadFunctions();  // if this throws, the next call tries again
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
  dlclose(library);  // the program's own reference keeps it loaded
  int count = 0;
  auto* const get_count = reinterpret_cast<decltype(DeviceGetCount)>(dlsym(library, "cuDeviceGetCount"));
  if (get_count == nullptr) return nullptr;
  const int result = get_count(&count);
  if (result == kCudaNotInitialized || result == kCudaNoDevice) return nullptr;
  try {
    return &Loaded();       // must not fail silently: GPU memory would look like host memory
  } catch (const Error&) {  // a program that uses no GPU need not care about an old driver
    return nullptr;
  }
}

std::string CudaDriver::Describe(int result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &text);
  if (name == nullptr || text == nullptr) return "CUDA error " + std::to_string(result);
  return std::string(text) + " (" + name + ")";
}

void CudaDriver::Check(int result, const char* step, const std::string& object, const char* remedy) const {
  if (result != 0) throw Error(step, object, Describe(result), remedy, Errno(result));
}

}  // namespace warpverbs::inline v0_2::host
