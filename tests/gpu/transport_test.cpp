// Host code moves GPU memory that kernels fill and check.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>

#include "pattern.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::gpu {
namespace {

using transport::Bound;
using transport::RdmaMemory;
using transport::RdmaTransport;
using transport::Status;

constexpr std::chrono::seconds kLong{30};

/// Waits for an operation and returns its result in words.
std::string Outcome(std::future<Status> future) {
  return future.wait_for(kLong) == std::future_status::ready ? future.get().Describe()
                                                             : "the operation timed out";
}

/// A transport with memory of a GPU.
struct Side {
  Side(int number, size_t bytes)
      : ordinal(number),
        gpu(number),
        buffer(gpu, bytes),
        memory(buffer.data(), bytes, number),
        transport(number) {}

  void Fill(uint64_t round) const { FillByKernel(ordinal, buffer.data(), memory.size(), round); }
  uint64_t CountWrong(uint64_t round) const {
    return CountWrongByKernel(ordinal, buffer.data(), memory.size(), round);
  }

  int ordinal;
  host::Gpu gpu;
  host::GpuMemory buffer;
  RdmaMemory memory;
  RdmaTransport transport;
};

class TransportOfGpus : public testing::TestWithParam<size_t> {
 protected:
  static int Last() { return host::Gpu::Count() - 1; }

  void SetUp() override {
    const Bound at_a = a_.transport.Bind(), at_b = b_.transport.Bind();
    ASSERT_EQ(a_.transport.Connect(at_b.url).Describe(), "success");
    ASSERT_EQ(b_.transport.Connect(at_a.url).Describe(), "success");
  }

  Side a_{0, GetParam()}, b_{Last(), GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Bytes, TransportOfGpus, testing::Values(1, 4096, 3'000'001, 64 << 20));

TEST_P(TransportOfGpus, KernelsSeeEachByteOfAnAnnouncedWrite) {
  for (uint64_t round = 1; round <= 20; ++round) {
    a_.Fill(round);
    std::future<Status> arrived = b_.transport.WaitForWrite();
    EXPECT_EQ(Outcome(a_.transport.Write(a_.memory.CreateView(), b_.memory.Remote(), {.notify = true})),
              "success");
    ASSERT_EQ(Outcome(std::move(arrived)), "success");
    ASSERT_EQ(b_.CountWrong(round), 0U) << "in round " << round;
  }
}

TEST_P(TransportOfGpus, KernelsSeeEachByteOfARead) {
  for (uint64_t round = 1; round <= 20; ++round) {
    b_.Fill(round);
    ASSERT_EQ(Outcome(a_.transport.Read(a_.memory.CreateMutableView(), b_.memory.Remote())), "success");
    ASSERT_EQ(a_.CountWrong(round), 0U) << "in round " << round;
  }
}

}  // namespace
}  // namespace warpverbs::gpu
