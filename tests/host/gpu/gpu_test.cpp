#include "warpverbs/host/gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>
#include <vector>

#include "fake_cuda.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"

struct CUctx_st;
extern "C" {
int cuCtxGetCurrent(CUctx_st** context);
int cuCtxPushCurrent_v2(CUctx_st* context);
int cuCtxPopCurrent_v2(CUctx_st** context);
int cuDevicePrimaryCtxRetain(CUctx_st** context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
}

/// Gpu, GpuMemory and GpuMapping, with the fake driver.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class GpuTest : public testing::Test {
 protected:
  GpuTest() { fake_cuda::Configure("gpus=2"); }
  ~GpuTest() override {
    EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked";
    EXPECT_EQ(fake_cuda::ContextDepth(), 0);
  }
};

TEST_F(GpuTest, HasANameAndAnAddress) {
  EXPECT_EQ(Gpu::Count(), 2);
  const Gpu gpu(1);
  EXPECT_EQ(gpu.ordinal(), 1);
  EXPECT_EQ(gpu.name(), "cuda:1");
  EXPECT_EQ(gpu.model(), "Fake GPU");
  EXPECT_EQ(gpu.pci_address(), "0000:42:00.0");
}

TEST_F(GpuTest, DescribesItsFeatures) {
  {
    const GpuAttributes can = Gpu().attributes();
    EXPECT_TRUE(can.dma_buf && can.gpu_direct && can.gpu_direct_vmm && can.host_flush);
    EXPECT_EQ(can.writes_ordering, WritesOrdering::kOwner);
  }
  fake_cuda::Configure("dma_buf=0,gpu_direct=0,vmm=0,flush=2,writes_ordering=0");
  const GpuAttributes cannot = Gpu().attributes();
  EXPECT_FALSE(cannot.dma_buf || cannot.gpu_direct || cannot.gpu_direct_vmm || cannot.host_flush);
  EXPECT_EQ(cannot.writes_ordering, WritesOrdering::kNone);
  fake_cuda::Configure("writes_ordering=200");
  EXPECT_EQ(Gpu().attributes().writes_ordering, WritesOrdering::kAllDevices);
}

TEST_F(GpuTest, RejectsMissingGpus) {
  const std::string two =
      "Cannot use cuda:2: this process sees 2 GPU(s). Pass an index from 0, and check CUDA_VISIBLE_DEVICES.";
  EXPECT_EQ(WhyRefused([] { Gpu gpu(2); }), two);
  EXPECT_THAT(WhyRefused([] { Gpu gpu(-1); }), HasSubstr("Cannot use cuda:-1: this process sees 2 GPU(s)"));
  fake_cuda::Configure("gpus=0");
  EXPECT_EQ(Gpu::Count(), 0);
  EXPECT_THAT(WhyRefused([] { Gpu gpu; }),
              HasSubstr("Cannot start libcuda.so.1: the fake driver refuses "
                        "(CUDA_ERROR_NO_DEVICE). Check that nvidia-smi lists a GPU"));
}

TEST_F(GpuTest, KeepsTheCallersContext) {
  CUctx_st* own = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&own, 1), 0);
  cuCtxPushCurrent_v2(own);
  const auto is_current = [own] {
    CUctx_st* current = nullptr;
    cuCtxGetCurrent(&current);
    return current == own && fake_cuda::ContextDepth() == 1;
  };
  {
    const Gpu gpu(0);
    EXPECT_TRUE(is_current());
    const GpuMemory memory(gpu, 64);
    HostPages pages(4096);
    const GpuMapping mapping(gpu, pages.bytes());
    EXPECT_TRUE(is_current());
    EXPECT_THROW(GpuMemory(gpu, size_t{1} << 40), Error);
    EXPECT_THROW(GpuMapping(gpu, pages.bytes()), Error) << "the memory is already mapped";
    fake_cuda::FailCall("cuMemsetD8Async", 1);
    EXPECT_THROW(memory.Fill(0, 1, std::byte{}), Error);
    EXPECT_TRUE(is_current());
  }
  EXPECT_TRUE(is_current());
  cuCtxPopCurrent_v2(nullptr);
  cuDevicePrimaryCtxRelease_v2(1);
}

TEST_F(GpuTest, ReportsAContextThatCannotBeEntered) {
  fake_cuda::FailCall("cuCtxPushCurrent_v2", 1);
  EXPECT_THAT(WhyRefused([] { Gpu gpu; }), HasSubstr("Cannot enter the context of cuda:0: "));
}

TEST_F(GpuTest, AllocatesZeroedWholePages) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 100'000);
  EXPECT_EQ(memory.size(), 2 * GpuMemory::kPageBytes);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % GpuMemory::kPageBytes, 0);
  std::vector<std::byte> bytes(memory.size(), std::byte{1});
  memory.CopyOut(0, bytes);
  EXPECT_EQ(bytes, std::vector<std::byte>(memory.size()));
}

TEST_F(GpuTest, CopiesMemory) {
  const Gpu gpu(1);
  const GpuMemory memory(gpu, 64);
  memory.Fill(8, 8, std::byte{0x42});
  const std::array<std::byte, 3> in{std::byte{1}, std::byte{2}, std::byte{3}};
  memory.CopyIn(10, in);
  std::array<std::byte, 5> out{};
  memory.CopyOut(9, out);
  EXPECT_THAT(
      out, testing::ElementsAre(std::byte{0x42}, std::byte{1}, std::byte{2}, std::byte{3}, std::byte{0x42}));
  memory.CopyIn(memory.size(), {});
  EXPECT_THROW(memory.CopyIn(memory.size() - 2, in), std::out_of_range);
  EXPECT_THROW(memory.CopyOut(memory.size() + 1, out), std::out_of_range);
  EXPECT_THROW(memory.Fill(1, SIZE_MAX, std::byte{}), std::out_of_range);
}

TEST_F(GpuTest, RejectsEmptyAndHugeAllocations) {
  const Gpu gpu;
  EXPECT_EQ(
      WhyRefused([&] { GpuMemory(gpu, 0); }),
      "Cannot allocate 0 bytes of memory of cuda:0: an allocation cannot be empty. Ask for 1 byte or more.");
  EXPECT_EQ(WhyRefused([&] { GpuMemory(gpu, size_t{1} << 40); }),
            "Cannot allocate 1099511627776 bytes of memory of cuda:0: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY). Free "
            "some of the GPU's memory (nvidia-smi shows which processes hold it).");
}

TEST_F(GpuTest, RejectsHostMemoryAtAnotherAddress) {
  fake_cuda::Configure("same_address=0");
  const Gpu gpu;
  HostPages pages(4096);
  EXPECT_EQ(WhyRefused([&] { GpuMapping(gpu, pages.bytes()); }),
            "Cannot map 4096 bytes of host memory for cuda:0: the GPU sees it at another address. Use a GPU, "
            "a driver and "
            "a system with unified addressing.");
  EXPECT_EQ(fake_cuda::HeldNow().registrations, 0);
}

TEST_F(GpuTest, ReportsEveryFailedCallWithoutLeaks) {
  EXPECT_GT(ForEachFailure([] {
              const Gpu gpu(1);
              const GpuMemory memory(gpu, 64);
              memory.Fill(0, 8, std::byte{1});
              HostPages pages(4096);
              const GpuMapping mapping(gpu, pages.bytes());
            }),
            10);
}

}  // namespace
}  // namespace warpverbs::host
