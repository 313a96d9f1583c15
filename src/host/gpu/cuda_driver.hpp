#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

// The driver's names of its handles.
struct CUctx_st;
struct CUevent_st;
struct CUstream_st;

namespace warpverbs::inline v0_2::host {

using CudaAddress = uint64_t;
using CudaHandle = unsigned long long;  // allocation made by cuMemCreate()

// Constants of cuda.h that this library uses.
enum CudaDeviceAttribute : int {
  kCudaIntegrated = 18,
  kCudaGpuDirectVmm = 110,
  kCudaGpuDirect = 116,
  kCudaFlushOptions = 117,
  kCudaWritesOrdering = 118,
  kCudaDmaBuf = 124,
};
enum CudaPointerAttribute : int {
  kCudaMemoryType = 2,
  kCudaSyncMemops = 6,
  kCudaBufferId = 7,
  kCudaIsManaged = 8,
  kCudaDeviceOrdinal = 9,
  kCudaIpcCapable = 10,
  kCudaRangeStart = 11,
  kCudaRangeSize = 12,
  kCudaMapped = 13,
  kCudaHandleTypes = 14,
  kCudaGpuDirectCapable = 15,
  kCudaPoolHandle = 17,
  kCudaMappingSize = 18,
  kCudaMappingStart = 19,
  kCudaMemoryBlockId = 20,
};
enum CudaHostRegisterFlag : unsigned { kCudaPortable = 1, kCudaDeviceMap = 2, kCudaIoMemory = 4 };
inline constexpr int kCudaFlushByHost = 1, kCudaFlushByStream = 2;
inline constexpr int kCudaOrderedForOwner = 100, kCudaOrderedForAll = 200;
inline constexpr int kCudaFlushCurrentContext = 0, kCudaFlushToOwner = 100;
inline constexpr int kCudaFlushRemoteWrites = 3;
inline constexpr unsigned kCudaMemoryOfDevice = 2, kCudaNonBlockingStream = 1, kCudaEventWithoutTime = 2;
inline constexpr int kCudaInvalidValue = 1, kCudaOutOfMemory = 2, kCudaNotInitialized = 3,
                     kCudaNoDevice = 100, kCudaNotReady = 600, kCudaNotSupported = 801;
inline constexpr int kCudaDmaBufFd = 1, kCudaPosixFile = 1;
inline constexpr unsigned long long kCudaDmaBufOverPcie = 1;
inline constexpr unsigned kCudaIpcLazyPeerAccess = 1;

/// A handle of an allocation for other processes, opaque to us.
struct CudaIpcHandle {
  unsigned char bytes[64];
};

/// A GPU's read and write access to a mapping.
struct CudaAccess {
  int location_type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int location = 0;
  int flags = 3;
};

/// A stream memory operation. We use one: flushing what others wrote to the GPU.
struct CudaMemoryOperation {
  int operation = kCudaFlushRemoteWrites;
  unsigned flags = 0;
  uint64_t unused[5] = {};
};

/// The functions of libcuda.so.1 that this library calls. It is built without CUDA and not linked with it.
///
/// @source  CUDA driver API 12.2 to 13.0, cuda.h
struct CudaDriver {
  // Names without "cu" and version. Each returns a CUresult, 0 for success.
  int (*Init)(unsigned flags);
  int (*GetErrorName)(int result, const char** name);
  int (*GetErrorString)(int result, const char** text);
  int (*DriverGetVersion)(int* version);  // CUDA's 1000 * major + 10 * minor
  int (*DeviceGetCount)(int* count);
  int (*DeviceGet)(int* device, int ordinal);
  int (*DeviceGetName)(char* name, int bytes, int device);
  int (*DeviceGetPCIBusId)(char* text, int bytes, int device);
  int (*DeviceGetAttribute)(int* value, int attribute, int device);
  int (*DevicePrimaryCtxRetain)(CUctx_st** context, int device);
  int (*DevicePrimaryCtxRelease)(int device);
  int (*CtxPushCurrent)(CUctx_st* context);
  int (*CtxPopCurrent)(CUctx_st** context);
  int (*StreamCreate)(CUstream_st** stream, unsigned flags);
  int (*StreamDestroy)(CUstream_st* stream);
  int (*StreamSynchronize)(CUstream_st* stream);
  int (*StreamBatchMemOp)(CUstream_st* stream, unsigned count, CudaMemoryOperation* operations,
                          unsigned flags);
  int (*EventCreate)(CUevent_st** event, unsigned flags);
  int (*EventRecord)(CUevent_st* event, CUstream_st* stream);
  int (*EventQuery)(CUevent_st* event);
  int (*EventDestroy)(CUevent_st* event);
  int (*CtxRecordEvent)(CUctx_st* context, CUevent_st* event);  // nullptr before CUDA 12.5
  int (*FlushGPUDirectRDMAWrites)(int target, int scope);
  int (*MemAlloc)(CudaAddress* address, size_t bytes);
  int (*MemFree)(CudaAddress address);
  int (*MemcpyHtoDAsync)(CudaAddress to, const void* from, size_t bytes, CUstream_st* stream);
  int (*MemcpyDtoHAsync)(void* to, CudaAddress from, size_t bytes, CUstream_st* stream);
  int (*MemcpyDtoDAsync)(CudaAddress to, CudaAddress from, size_t bytes, CUstream_st* stream);
  int (*MemcpyPeerAsync)(CudaAddress to, CUctx_st* to_context, CudaAddress from, CUctx_st* from_context,
                         size_t bytes, CUstream_st* stream);
  int (*MemsetD8Async)(CudaAddress at, unsigned char value, size_t bytes, CUstream_st* stream);
  int (*MemHostRegister)(void* memory, size_t bytes, unsigned flags);
  int (*MemHostUnregister)(void* memory);
  int (*MemHostGetDevicePointer)(CudaAddress* address, void* memory, unsigned flags);
  int (*PointerGetAttribute)(void* value, int attribute, CudaAddress address);
  int (*PointerSetAttribute)(const void* value, int attribute, CudaAddress address);
  int (*MemGetHandleForAddressRange)(void* handle, CudaAddress start, size_t bytes, int type,
                                     unsigned long long flags);
  int (*MemRetainAllocationHandle)(CudaHandle* handle, void* memory);
  int (*MemRelease)(CudaHandle handle);
  int (*IpcGetMemHandle)(CudaIpcHandle* handle, CudaAddress address);
  int (*IpcOpenMemHandle)(CudaAddress* address, CudaIpcHandle handle, unsigned flags);
  int (*IpcCloseMemHandle)(CudaAddress address);
  int (*MemExportToShareableHandle)(void* shareable, CudaHandle handle, int type, unsigned long long flags);
  int (*MemImportFromShareableHandle)(CudaHandle* handle, void* shareable, int type);
  int (*MemAddressReserve)(CudaAddress* address, size_t bytes, size_t alignment, CudaAddress at,
                           unsigned long long flags);
  int (*MemAddressFree)(CudaAddress address, size_t bytes);
  int (*MemMap)(CudaAddress at, size_t bytes, size_t offset, CudaHandle handle, unsigned long long flags);
  int (*MemUnmap)(CudaAddress at, size_t bytes);
  int (*MemSetAccess)(CudaAddress at, size_t bytes, const CudaAccess* access, size_t count);

  /// Loads the driver on the first call. It stays loaded.
  ///
  /// @errors  Error: no driver is installed, it lacks a function, or it does not start
  static const CudaDriver& Load();

  /// Returns the driver if the program has loaded and started it, else nullptr. Loads nothing.
  static const CudaDriver* FindLoaded();

  /// Maps a result to an errno value that callers act on, or 0.
  static int Errno(int result) { return result == kCudaOutOfMemory ? ENOMEM : 0; }

  /// Throws Error unless the result is success.
  void Check(int result, const char* step, const std::string& object, const char* remedy) const;

  std::string Describe(int result) const;  ///< "out of memory (CUDA_ERROR_OUT_OF_MEMORY)"
};

inline CudaAddress ToCuda(const void* memory) { return reinterpret_cast<CudaAddress>(memory); }

}  // namespace warpverbs::inline v0_2::host
