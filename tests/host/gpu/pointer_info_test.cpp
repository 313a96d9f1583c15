#include "warpverbs/host/pointer_info.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_cuda.hpp"
#include "host/gpu/driver_memory.hpp"
#include "host/gpu/gpu_failures.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/memory.hpp"

/// Descriptions of addresses, with the fake driver.
namespace warpverbs::host {
namespace {

class PointerInfoTest : public testing::Test {
 protected:
  PointerInfoTest() { fake_cuda::Configure("gpus=2"); }
  ~PointerInfoTest() override { EXPECT_EQ(fake_cuda::HeldNow(), fake_cuda::Held{}) << "resources leaked"; }

  static const void* At(uint64_t address) { return reinterpret_cast<const void*>(address); }
};

TEST_F(PointerInfoTest, DescribesNullAsUnallocated) {
  EXPECT_EQ(DescribePointer(nullptr), PointerInfo{});
  EXPECT_STREQ(ToString(PointerInfo{}.kind), "unallocated memory");
}

TEST_F(PointerInfoTest, DescribesUnknownMemoryAsHost) {
  const int word = 0;
  EXPECT_EQ(DescribePointer(&word), PointerInfo{.kind = PointerKind::kHost});
  const Gpu gpu;  // initializes the driver
  EXPECT_EQ(DescribePointer(&word), PointerInfo{.kind = PointerKind::kHost});
  EXPECT_EQ(DescribeRange(&word, sizeof word), (std::vector{PointerInfo{.kind = PointerKind::kHost}}));
}

TEST_F(PointerInfoTest, DescribesMappedHostMemoryAsPinned) {
  const Gpu gpu(1);
  HostPages pages(8192);
  {
    const GpuMapping mapping(gpu, pages.bytes());
    const PointerInfo info = DescribePointer(pages.data() + 5000);
    EXPECT_EQ(info.kind, PointerKind::kPinned);
    EXPECT_EQ(info.ordinal, 1);
    EXPECT_EQ(At(info.base), pages.data());
    EXPECT_EQ(info.bytes, 8192);
    EXPECT_NE(info.buffer_id, 0);
    EXPECT_FALSE(info.on_gpu());
  }
  EXPECT_EQ(DescribePointer(pages.data()).kind, PointerKind::kHost) << "it is no longer mapped";
}

TEST_F(PointerInfoTest, DescribesDeviceMemoryWithItsAllocationAndId) {
  const Gpu gpu(1);
  const DriverContext context(1);
  uint64_t start = 0;
  ASSERT_EQ(cuMemAlloc_v2(&start, 10'000), 0);
  const PointerInfo info = DescribePointer(At(start + 9'999));
  EXPECT_EQ(info.kind, PointerKind::kDevice);
  EXPECT_TRUE(info.on_gpu() && info.ipc && info.gpu_direct);
  EXPECT_EQ(info.ordinal, 1);
  EXPECT_EQ(info.base, start);
  EXPECT_EQ(info.bytes, 10'000);
  EXPECT_EQ(info, DescribePointer(At(start)));
  EXPECT_EQ(DescribePointer(At(start + 10'000)).kind, PointerKind::kHost) << "one past its end";
  EXPECT_EQ(DescribeRange(At(start + 50), 9'950), std::vector{info});
  cuMemFree_v2(start);
}

TEST_F(PointerInfoTest, ChangesTheIdOfAReusedAddress) {
  const Gpu gpu;
  const DriverContext context;
  uint64_t first = 0, second = 0;
  ASSERT_EQ(cuMemAlloc_v2(&first, 10'000), 0);
  const uint64_t first_id = DescribePointer(At(first)).buffer_id;
  cuMemFree_v2(first);
  EXPECT_EQ(DescribePointer(At(first)).kind, PointerKind::kHost) << "it is free";
  ASSERT_EQ(cuMemAlloc_v2(&second, 10'000), 0);
  ASSERT_EQ(first, second);
  EXPECT_NE(DescribePointer(At(second)).buffer_id, first_id);
  EXPECT_NE(DescribePointer(At(second)).buffer_id, 0);
  cuMemFree_v2(second);
}

TEST_F(PointerInfoTest, DescribesManagedMemory) {
  const Gpu gpu;
  const DriverContext context;
  uint64_t managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, 4096, 1), 0);
  const PointerInfo info = DescribePointer(At(managed + 8));
  EXPECT_EQ(info.kind, PointerKind::kManaged);
  EXPECT_EQ(info.base, managed);
  EXPECT_FALSE(info.on_gpu());
  cuMemFree_v2(managed);
}

TEST_F(PointerInfoTest, DescribesEachChunkOfVmmMemory) {
  const Gpu gpu;
  const VmmMemory memory(3);
  const std::vector<PointerInfo> pieces = DescribeRange(memory.data() + 100, 2 * VmmMemory::kChunk);
  ASSERT_EQ(pieces.size(), 3);
  for (size_t chunk = 0; chunk < 3; ++chunk) {
    EXPECT_EQ(pieces[chunk].kind, PointerKind::kVmm);
    EXPECT_EQ(At(pieces[chunk].base), memory.data() + chunk * VmmMemory::kChunk);
    EXPECT_EQ(pieces[chunk].bytes, VmmMemory::kChunk);
    EXPECT_EQ(pieces[chunk].handle_types, 1);
    EXPECT_FALSE(pieces[chunk].ipc);
    EXPECT_NE(pieces[chunk].buffer_id, 0);
    EXPECT_NE(pieces[chunk].buffer_id, pieces[(chunk + 1) % 3].buffer_id);
  }
  EXPECT_EQ(DescribeRange(memory.data(), VmmMemory::kChunk).size(), 1) << "up to the end of the first chunk";
}

TEST_F(PointerInfoTest, ChangesTheIdOfARemappedChunk) {
  const Gpu gpu;
  VmmMemory memory(2);
  const uint64_t before = DescribePointer(memory.data()).buffer_id;
  const PointerInfo neighbour = DescribePointer(memory.data() + VmmMemory::kChunk);
  memory.Unmap(0);
  EXPECT_EQ(DescribePointer(memory.data()), PointerInfo{}) << "nothing is allocated there";
  EXPECT_EQ(DescribeRange(memory.data(), VmmMemory::kChunk * 2).size(), 1);
  memory.Map(0);
  EXPECT_NE(DescribePointer(memory.data()).buffer_id, before);
  EXPECT_EQ(DescribePointer(memory.data() + VmmMemory::kChunk), neighbour);
}

TEST_F(PointerInfoTest, EndsARangeAtUnmappedMemory) {
  const Gpu gpu;
  VmmMemory memory(3);
  memory.Unmap(1);
  const std::vector<PointerInfo> pieces = DescribeRange(memory.data(), 3 * VmmMemory::kChunk);
  ASSERT_EQ(pieces.size(), 2);
  EXPECT_EQ(pieces[1], PointerInfo{});
}

TEST_F(PointerInfoTest, EndsARangeIfPiecesDoNotAdvance) {
  fake_cuda::Configure("first_mapping=1");
  const Gpu gpu;
  const VmmMemory memory(3);
  EXPECT_EQ(DescribeRange(memory.data(), 3 * VmmMemory::kChunk).size(), 2)
      << "a piece without progress is the last";
}

TEST_F(PointerInfoTest, DescribesMemoryAsUnallocatedIfTheDriverFails) {
  const Gpu gpu;
  const GpuMemory memory(gpu, 64);
  fake_cuda::FailCall("cuPointerGetAttribute", 1, 700);
  EXPECT_EQ(DescribePointer(memory.data()), PointerInfo{});
  fake_cuda::FailCall("cuDeviceGetCount", 1, 700);
  EXPECT_EQ(DescribePointer(memory.data()).kind, PointerKind::kDevice) << "and never host memory";
}

TEST_F(PointerInfoTest, LeaksNothingIfACallFails) {
  const Gpu gpu;
  const VmmMemory memory(2);
  EXPECT_GT(ForEachFailure([&] { DescribeRange(memory.data(), 2 * VmmMemory::kChunk); }), 10);
}

}  // namespace
}  // namespace warpverbs::host
