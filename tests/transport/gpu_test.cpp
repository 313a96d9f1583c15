#include "warpverbs/host/gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_cuda.hpp"
#include "pair.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

/// Memory of GPUs. The processor faults when it touches it.
namespace warpverbs::transport {
namespace {

constexpr size_t kBytes = 3'000'001;

/// Memory of a GPU, registered on the NIC nearest to it.
struct OnGpu {
  explicit OnGpu(int ordinal) : gpu(ordinal), buffer(gpu, kBytes), memory(buffer.data(), kBytes, ordinal) {}

  std::vector<std::byte> Contents() const {
    std::vector<std::byte> contents(kBytes);
    buffer.CopyOut(0, contents);
    return contents;
  }

  host::Gpu gpu;
  host::GpuMemory buffer;
  RdmaMemory memory;
};

struct TransportGpu : testing::Test {
  static void SetUpTestSuite() { fake_cuda::Configure("gpus=2,dma_buf=0"); }
};

TEST_F(TransportGpu, WritesReadsAndNotifies) {
  RdmaTransport a(0), b(1);
  const Bound at_a = a.Bind(), at_b = b.Bind();
  ASSERT_SUCCESS(a.Connect(at_b.url));
  ASSERT_SUCCESS(b.Connect(at_a.url));
  const OnGpu from(0), to(1), back(0);
  std::vector<std::byte> pattern(kBytes);
  for (size_t i = 0; i < kBytes; ++i) pattern[i] = static_cast<std::byte>(i * 13 / 3);
  from.buffer.CopyIn(0, pattern);
  EXPECT_SUCCESS(ResultOf(a.Write(from.memory.CreateView(), to.memory.Remote(), {.notify = true})));
  EXPECT_SUCCESS(ResultOf(b.WaitForWrite()));
  EXPECT_EQ(to.Contents(), pattern);
  EXPECT_SUCCESS(ResultOf(a.Read(back.memory.CreateMutableView(), to.memory.Remote())));
  EXPECT_EQ(back.Contents(), pattern);
  EXPECT_EQ(ResultOf(a.Write(to.memory.CreateView(), from.memory.Remote())), Code::kInvalid)
      << "the memory belongs to the other GPU";
}

TEST_F(TransportGpu, ReusesARegistrationOfTheSameMemory) {
  const OnGpu first(0);
  {
    const RdmaMemory again(first.buffer.data(), kBytes, 0);
    EXPECT_TRUE(again.Reused());
  }
  auto other = std::make_unique<OnGpu>(0);
  EXPECT_FALSE(other->memory.Reused());
}

TEST(TransportDmaBuf, RegistersMemoryOfWhichOnlyAFileIsKnown) {
  fake_cuda::Configure("gpus=1");
  {
    const host::GpuMemory memory(host::Gpu(0), kBytes);
    const auto file = host::WrapDmaBuf({host::Gpu(0), memory.data(), memory.size()}, memory.data(), kBytes);
    RdmaTransport a(0), b(0);
    const Bound at_a = a.Bind(), at_b = b.Bind();
    ASSERT_SUCCESS(a.Connect(at_b.url));
    ASSERT_SUCCESS(b.Connect(at_a.url));
    std::vector<std::byte> pattern(kBytes), found(kBytes);
    for (size_t i = 0; i < kBytes; ++i) pattern[i] = static_cast<std::byte>(i * 13 / 3);
    const RdmaMemory from(static_cast<void*>(pattern.data()), kBytes, 0);
    {
      const RdmaMemory to(*file, 0);
      EXPECT_FALSE(to.Reused());
      EXPECT_EQ(to.data(), memory.data());
      EXPECT_EQ(to.size(), kBytes);
      EXPECT_SUCCESS(ResultOf(a.Write(from.CreateView(), to.Remote())));
      const RdmaMemory again(*file, 0);
      EXPECT_FALSE(again.Reused()) << "nothing is kept of a file";
    }
    memory.CopyOut(0, found);
    EXPECT_EQ(found, pattern);
  }
  fake_cuda::Configure("gpus=2,dma_buf=0");
}

TEST_F(TransportGpu, RefusesAGpuThatDoesNotExist) { EXPECT_THROW(RdmaTransport(2), host::Error); }

}  // namespace
}  // namespace warpverbs::transport
