#include "fake_cuda.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

struct CUctx_st;
struct CUstream_st;
extern "C" {
int cuInit(unsigned);
int cuDevicePrimaryCtxRetain(CUctx_st**, int);
int cuDevicePrimaryCtxRelease_v2(int);
int cuCtxPushCurrent_v2(CUctx_st*);
int cuCtxPopCurrent_v2(CUctx_st**);
int cuStreamCreate(CUstream_st**, unsigned);
int cuStreamDestroy_v2(CUstream_st*);
int cuMemAlloc_v2(uint64_t*, size_t);
int cuMemFree_v2(uint64_t);
int cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t, CUstream_st*);
int cuMemcpyDtoHAsync_v2(void*, uint64_t, size_t, CUstream_st*);
int cuMemGetHandleForAddressRange(void*, uint64_t, size_t, int, unsigned long long);
}

namespace fake_cuda {
namespace {

class FakeCuda : public testing::Test {
 protected:
  FakeCuda() {
    Configure("");
    cuInit(0);
    cuDevicePrimaryCtxRetain(&context_, 0);
    cuCtxPushCurrent_v2(context_);
    cuStreamCreate(&stream_, 1);
  }
  ~FakeCuda() override {
    cuStreamDestroy_v2(stream_);
    cuCtxPopCurrent_v2(nullptr);
    cuDevicePrimaryCtxRelease_v2(0);
  }

  static uint64_t Allocate(size_t bytes) {
    uint64_t address = 0;
    EXPECT_EQ(cuMemAlloc_v2(&address, bytes), 0);
    return address;
  }

  CUctx_st* context_ = nullptr;
  CUstream_st* stream_ = nullptr;
};
using FakeCudaDeathTest = FakeCuda;

TEST_F(FakeCuda, IsFoundByItsName) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr);
  EXPECT_EQ(dlsym(library, "cuInit"), reinterpret_cast<void*>(&cuInit));
  dlclose(library);
}

TEST_F(FakeCuda, CopiesThereAndBack) {
  const uint64_t memory = Allocate(100);
  char back[6] = {};
  EXPECT_EQ(cuMemcpyHtoDAsync_v2(memory + 50, "hello", 6, stream_), 0);
  EXPECT_EQ(cuMemcpyDtoHAsync_v2(back, memory + 50, 6, stream_), 0);
  EXPECT_STREQ(back, "hello");
  EXPECT_EQ(std::memcmp(Reach(reinterpret_cast<void*>(memory + 50), 6), "hello", 6), 0);
  cuMemFree_v2(memory);
}

TEST_F(FakeCuda, ExportsWholePagesThatTheImporterReaches) {
  const uint64_t memory = Allocate(5 * 4096);
  const uint64_t page = (memory + 4095) / 4096 * 4096;
  cuMemcpyHtoDAsync_v2(page, "before", 7, stream_);
  int fd = -1, same = -1, other = -1;
  EXPECT_NE(cuMemGetHandleForAddressRange(&fd, page + 1, 4096, 1, 0), 0) << "it does not start at a page";
  ASSERT_EQ(cuMemGetHandleForAddressRange(&fd, page, 2 * 4096, 1, 0), 0);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&same, page, 2 * 4096, 1, 0), 0);
  EXPECT_EQ(cuMemGetHandleForAddressRange(&other, page + 4096, 2 * 4096, 1, 0), 801) << "it overlaps";
  auto* const pages = static_cast<char*>(mmap(nullptr, 2 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_STREQ(pages, "before");
  std::strcpy(pages + 4096, "after");
  char back[6] = {};
  cuMemcpyDtoHAsync_v2(back, page + 4096, 6, stream_);
  EXPECT_STREQ(back, "after");
  munmap(pages, 2 * 4096);
  close(fd);
  close(same);
  cuMemFree_v2(memory);
}

TEST_F(FakeCuda, FailsTheRequestedCall) {
  FailCall("cuMemAlloc_v2", 2, 2);
  const uint64_t first = Allocate(8);
  uint64_t address = 0;
  EXPECT_TRUE(FailurePending());
  EXPECT_EQ(cuMemAlloc_v2(&address, 8), 2);
  EXPECT_FALSE(FailurePending());
  const uint64_t third = Allocate(8);
  EXPECT_EQ(Calls("cuMemAlloc_v2"), 3);
  EXPECT_EQ(HeldNow(), (Held{.allocations = 2, .streams = 1, .contexts = 1}));
  cuMemFree_v2(first);
  cuMemFree_v2(third);
}

TEST_F(FakeCudaDeathTest, FaultsIfTheProcessorTouchesDeviceMemory) {
  const uint64_t memory = Allocate(8);
  EXPECT_DEATH(*reinterpret_cast<volatile char*>(memory) = 1, "");
  cuMemFree_v2(memory);
}

TEST_F(FakeCuda, LetsAKernelThreadTouchDeviceMemory) {
  const uint64_t memory = Allocate(8);
  {
    const Kernel kernel, another;
    *reinterpret_cast<char*>(memory) = 'k';
  }
  EXPECT_EQ(*Reach(reinterpret_cast<void*>(memory), 1), std::byte{'k'});
  cuMemFree_v2(memory);
}

TEST_F(FakeCudaDeathTest, AbortsOnMisuse) {
  const uint64_t memory = Allocate(8);
  char bytes[16] = {};
  EXPECT_DEATH(cuMemcpyHtoDAsync_v2(memory, bytes, 16, stream_), "leaves its allocation");
  EXPECT_DEATH(cuMemcpyHtoDAsync_v2(memory, bytes, 8, nullptr), "legacy stream");
  EXPECT_DEATH(cuMemFree_v2(memory + 1), "nothing was allocated");
  EXPECT_DEATH((cuCtxPopCurrent_v2(nullptr), cuMemFree_v2(memory)), "no context is current");
  cuMemFree_v2(memory);
}

}  // namespace
}  // namespace fake_cuda
