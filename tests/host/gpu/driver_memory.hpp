#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

struct CUctx_st;
extern "C" {
int cuCtxPushCurrent_v2(CUctx_st* context);
int cuCtxPopCurrent_v2(CUctx_st** context);
int cuDevicePrimaryCtxRetain(CUctx_st** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuMemAlloc_v2(uint64_t* address, size_t bytes);
int cuMemAllocManaged(uint64_t* address, size_t bytes, unsigned flags);
int cuMemFree_v2(uint64_t address);
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags);
int cuMemFreeHost(void* memory);
int cuMemAddressReserve(uint64_t* address, size_t bytes, size_t alignment, uint64_t at, unsigned long long);
int cuMemAddressFree(uint64_t address, size_t bytes);
int cuMemCreate(unsigned long long* handle, size_t bytes, const void* properties, unsigned long long flags);
int cuMemRelease(unsigned long long handle);
int cuMemMap(uint64_t at, size_t bytes, size_t offset, unsigned long long handle, unsigned long long flags);
int cuMemUnmap(uint64_t at, size_t bytes);
}

/// Memory that a program allocates with the driver itself, as a framework does.
namespace warpverbs::inline v0_2::host {

/// Makes a GPU's context current.
///
/// @pre  the driver is initialised
class DriverContext {
 public:
  explicit DriverContext(int gpu = 0) : gpu_(gpu) {
    CUctx_st* context = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, gpu), 0);
    EXPECT_EQ(cuCtxPushCurrent_v2(context), 0);
  }
  ~DriverContext() {
    cuCtxPopCurrent_v2(nullptr);
    cuDevicePrimaryCtxRelease_v2(gpu_);
  }
  DriverContext(const DriverContext&) = delete;
  DriverContext& operator=(const DriverContext&) = delete;

 private:
  int gpu_;
};

/// Reserved addresses, to which cuMemCreate() memory is mapped chunk by chunk.
class VmmMemory {
 public:
  static constexpr size_t kChunk = 65536;

  struct Kind {
    int handle_types = 1;  // POSIX file descriptors
    bool gpu_direct = true;
  };

  explicit VmmMemory(size_t chunks) : VmmMemory(chunks, Kind{}) {}
  VmmMemory(size_t chunks, const Kind& kind) : kind_(kind), chunks_(chunks, 0) {
    EXPECT_EQ(cuMemAddressReserve(&start_, chunks * kChunk, 0, 0, 0), 0);
    for (size_t chunk = 0; chunk < chunks; ++chunk) Map(chunk);
  }
  ~VmmMemory() {
    for (size_t chunk = 0; chunk < chunks_.size(); ++chunk) Unmap(chunk);
    cuMemAddressFree(start_, chunks_.size() * kChunk);
  }
  VmmMemory(const VmmMemory&) = delete;
  VmmMemory& operator=(const VmmMemory&) = delete;

  std::byte* data() const { return reinterpret_cast<std::byte*>(start_); }

  /// Maps new memory.
  void Map(size_t chunk) {
    struct {  // CUmemAllocationProp
      int type = 1, handle_types = 0, location_type = 1, location = 0;
      void* windows = nullptr;
      unsigned char compression = 0, gpu_direct = 0;
      unsigned short usage = 0;
      unsigned char reserved[4] = {};
    } properties;
    properties.handle_types = kind_.handle_types;
    properties.gpu_direct = kind_.gpu_direct;
    EXPECT_EQ(cuMemCreate(&chunks_[chunk], kChunk, &properties, 0), 0);
    EXPECT_EQ(cuMemMap(start_ + chunk * kChunk, kChunk, 0, chunks_[chunk], 0), 0);
  }
  void Unmap(size_t chunk) {
    if (chunks_[chunk] == 0) return;
    cuMemUnmap(start_ + chunk * kChunk, kChunk);
    cuMemRelease(chunks_[chunk]);
    chunks_[chunk] = 0;
  }

 private:
  Kind kind_;
  uint64_t start_ = 0;
  std::vector<unsigned long long> chunks_;  // handles of the chunks, 0 if not mapped
};

}  // namespace warpverbs::inline v0_2::host
