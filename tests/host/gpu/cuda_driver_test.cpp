#include "gpu/cuda_driver.hpp"

#include <cuda.h>
#include <gtest/gtest.h>

#include <array>
#include <string_view>

#define SPELLING_OF(function) #function
#define SPELLING(function) SPELLING_OF(function)

/// Compares the library's declarations of the CUDA driver with those of the toolkit.
namespace warpverbs::host {
namespace {

/// Two functions match if their results and parameters have the same sizes.
template <class Result, class... Parameters>
constexpr auto Shape(Result (*)(Parameters...)) {
  return std::array{sizeof(Result), sizeof(Parameters)...};
}

#define EXPECT_ALIKE(member, function, name)                                                   \
  EXPECT_EQ(Shape(decltype(CudaDriver::member){}), Shape(decltype(&function){})) << #function; \
  EXPECT_EQ(std::string_view(SPELLING(function)), name)

TEST(CudaDriver, DeclaresTheToolkitsFunctions) {
  EXPECT_ALIKE(Init, cuInit, "cuInit");
  EXPECT_ALIKE(GetErrorName, cuGetErrorName, "cuGetErrorName");
  EXPECT_ALIKE(GetErrorString, cuGetErrorString, "cuGetErrorString");
  EXPECT_ALIKE(DriverGetVersion, cuDriverGetVersion, "cuDriverGetVersion");
  EXPECT_ALIKE(DeviceGetCount, cuDeviceGetCount, "cuDeviceGetCount");
  EXPECT_ALIKE(DeviceGet, cuDeviceGet, "cuDeviceGet");
  EXPECT_ALIKE(DeviceGetName, cuDeviceGetName, "cuDeviceGetName");
  EXPECT_ALIKE(DeviceGetPCIBusId, cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId");
  EXPECT_ALIKE(DeviceGetAttribute, cuDeviceGetAttribute, "cuDeviceGetAttribute");
  EXPECT_ALIKE(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
  EXPECT_ALIKE(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
  EXPECT_ALIKE(CtxPushCurrent, cuCtxPushCurrent, "cuCtxPushCurrent_v2");
  EXPECT_ALIKE(CtxPopCurrent, cuCtxPopCurrent, "cuCtxPopCurrent_v2");
  EXPECT_ALIKE(StreamCreate, cuStreamCreate, "cuStreamCreate");
  EXPECT_ALIKE(StreamDestroy, cuStreamDestroy, "cuStreamDestroy_v2");
  EXPECT_ALIKE(StreamSynchronize, cuStreamSynchronize, "cuStreamSynchronize");
  EXPECT_ALIKE(StreamBatchMemOp, cuStreamBatchMemOp, "cuStreamBatchMemOp_v2");
  EXPECT_ALIKE(EventCreate, cuEventCreate, "cuEventCreate");
  EXPECT_ALIKE(EventRecord, cuEventRecord, "cuEventRecord");
  EXPECT_ALIKE(EventQuery, cuEventQuery, "cuEventQuery");
  EXPECT_ALIKE(EventDestroy, cuEventDestroy, "cuEventDestroy_v2");
#if CUDA_VERSION >= 12050
  EXPECT_ALIKE(CtxRecordEvent, cuCtxRecordEvent, "cuCtxRecordEvent");
#endif
  EXPECT_ALIKE(FlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites, "cuFlushGPUDirectRDMAWrites");
  EXPECT_ALIKE(MemAlloc, cuMemAlloc, "cuMemAlloc_v2");
  EXPECT_ALIKE(MemFree, cuMemFree, "cuMemFree_v2");
  EXPECT_ALIKE(MemcpyHtoDAsync, cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2");
  EXPECT_ALIKE(MemcpyDtoHAsync, cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2");
  EXPECT_ALIKE(MemcpyDtoDAsync, cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2");
  EXPECT_ALIKE(MemcpyPeerAsync, cuMemcpyPeerAsync, "cuMemcpyPeerAsync");
  EXPECT_ALIKE(MemsetD8Async, cuMemsetD8Async, "cuMemsetD8Async");
  EXPECT_ALIKE(MemHostRegister, cuMemHostRegister, "cuMemHostRegister_v2");
  EXPECT_ALIKE(MemHostUnregister, cuMemHostUnregister, "cuMemHostUnregister");
  EXPECT_ALIKE(MemHostGetDevicePointer, cuMemHostGetDevicePointer, "cuMemHostGetDevicePointer_v2");
  EXPECT_ALIKE(PointerGetAttribute, cuPointerGetAttribute, "cuPointerGetAttribute");
  EXPECT_ALIKE(PointerSetAttribute, cuPointerSetAttribute, "cuPointerSetAttribute");
  EXPECT_ALIKE(MemGetHandleForAddressRange, cuMemGetHandleForAddressRange, "cuMemGetHandleForAddressRange");
  EXPECT_ALIKE(MemRetainAllocationHandle, cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle");
  EXPECT_ALIKE(MemRelease, cuMemRelease, "cuMemRelease");
  EXPECT_ALIKE(IpcGetMemHandle, cuIpcGetMemHandle, "cuIpcGetMemHandle");
  EXPECT_ALIKE(IpcOpenMemHandle, cuIpcOpenMemHandle, "cuIpcOpenMemHandle_v2");
  EXPECT_ALIKE(IpcCloseMemHandle, cuIpcCloseMemHandle, "cuIpcCloseMemHandle");
  EXPECT_ALIKE(MemExportToShareableHandle, cuMemExportToShareableHandle, "cuMemExportToShareableHandle");
  EXPECT_ALIKE(MemImportFromShareableHandle, cuMemImportFromShareableHandle,
               "cuMemImportFromShareableHandle");
  EXPECT_ALIKE(MemAddressReserve, cuMemAddressReserve, "cuMemAddressReserve");
  EXPECT_ALIKE(MemAddressFree, cuMemAddressFree, "cuMemAddressFree");
  EXPECT_ALIKE(MemMap, cuMemMap, "cuMemMap");
  EXPECT_ALIKE(MemUnmap, cuMemUnmap, "cuMemUnmap");
  EXPECT_ALIKE(MemSetAccess, cuMemSetAccess, "cuMemSetAccess");
}

TEST(CudaDriver, HasTheToolkitsConstants) {
  EXPECT_EQ(int{kCudaIntegrated}, CU_DEVICE_ATTRIBUTE_INTEGRATED);
  EXPECT_EQ(int{kCudaGpuDirectVmm}, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  EXPECT_EQ(int{kCudaGpuDirect}, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
  EXPECT_EQ(int{kCudaFlushOptions}, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
  EXPECT_EQ(int{kCudaWritesOrdering}, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
  EXPECT_EQ(int{kCudaDmaBuf}, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
  EXPECT_EQ(int{kCudaMemoryType}, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
  EXPECT_EQ(int{kCudaSyncMemops}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS);
  EXPECT_EQ(int{kCudaBufferId}, CU_POINTER_ATTRIBUTE_BUFFER_ID);
  EXPECT_EQ(int{kCudaIpcCapable}, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
  EXPECT_EQ(int{kCudaRangeStart}, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
  EXPECT_EQ(int{kCudaRangeSize}, CU_POINTER_ATTRIBUTE_RANGE_SIZE);
  EXPECT_EQ(int{kCudaMapped}, CU_POINTER_ATTRIBUTE_MAPPED);
  EXPECT_EQ(int{kCudaHandleTypes}, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES);
  EXPECT_EQ(int{kCudaGpuDirectCapable}, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
  EXPECT_EQ(int{kCudaPoolHandle}, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
  EXPECT_EQ(int{kCudaMappingSize}, CU_POINTER_ATTRIBUTE_MAPPING_SIZE);
  EXPECT_EQ(int{kCudaMappingStart}, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR);
  EXPECT_EQ(int{kCudaMemoryBlockId}, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID);
  EXPECT_EQ(int{kCudaIsManaged}, CU_POINTER_ATTRIBUTE_IS_MANAGED);
  EXPECT_EQ(int{kCudaDeviceOrdinal}, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
  EXPECT_EQ(unsigned{kCudaPortable}, unsigned{CU_MEMHOSTREGISTER_PORTABLE});
  EXPECT_EQ(unsigned{kCudaDeviceMap}, unsigned{CU_MEMHOSTREGISTER_DEVICEMAP});
  EXPECT_EQ(unsigned{kCudaIoMemory}, unsigned{CU_MEMHOSTREGISTER_IOMEMORY});
  EXPECT_EQ(kCudaFlushByHost, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
  EXPECT_EQ(kCudaFlushByStream, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS);
  EXPECT_EQ(kCudaFlushCurrentContext, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
  EXPECT_EQ(kCudaFlushToOwner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
  EXPECT_EQ(kCudaFlushRemoteWrites, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES);
  EXPECT_EQ(sizeof(CudaMemoryOperation), sizeof(CUstreamBatchMemOpParams));
  EXPECT_EQ(offsetof(CudaMemoryOperation, flags),
            offsetof(CUstreamBatchMemOpParams, flushRemoteWrites.flags));
  EXPECT_EQ(kCudaOrderedForOwner, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
  EXPECT_EQ(kCudaOrderedForAll, CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES);
  EXPECT_EQ(kCudaMemoryOfDevice, CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(kCudaNonBlockingStream, CU_STREAM_NON_BLOCKING);
  EXPECT_EQ(kCudaEventWithoutTime, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(kCudaNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_EQ(kCudaNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(kCudaInvalidValue, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(kCudaOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(kCudaNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(kCudaNoDevice, CUDA_ERROR_NO_DEVICE);
#if CUDA_VERSION >= 12080
  EXPECT_EQ(kCudaDmaBufOverPcie, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE);
#endif
  EXPECT_EQ(kCudaPosixFile, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_EQ(kCudaIpcLazyPeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  EXPECT_EQ(sizeof(CudaIpcHandle), sizeof(CUipcMemHandle));
  EXPECT_EQ(sizeof(CudaAccess), sizeof(CUmemAccessDesc));
  EXPECT_EQ(CudaAccess{}.location_type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(CudaAccess{}.flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(kCudaDmaBufFd, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
}

}  // namespace
}  // namespace warpverbs::host
