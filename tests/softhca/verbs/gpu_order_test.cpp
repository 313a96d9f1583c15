#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "fake_cuda.hpp"
#include "verbs/devx.hpp"
#include "verbs/gpu_region.hpp"

// Streams of the fake driver finish late. Everything must still appear to be done in order.
namespace verbs {
namespace {

/// Makes the fake driver slow. Must be constructed before any memory of a GPU.
struct SlowDriver {
  SlowDriver() { fake_cuda::Configure("gpus=2,delay_us=500"); }
  ~SlowDriver() { fake_cuda::Configure("gpus=2"); }
};

class SlowGpu : public testing::Test {
 protected:
  SlowGpu() {
    a.Connect(b);
    b.Connect(a);
  }

  SlowDriver slow_driver;
  Context context = Open();
  Peer a{context.get()}, b{context.get()};
};

/// The places of the data and of the signal that follows them.
class SlowSignal : public SlowGpu, public testing::WithParamInterface<std::tuple<int, int>> {};

INSTANTIATE_TEST_SUITE_P(To, SlowSignal,
                         testing::Combine(testing::Values(0, 1), testing::Values(kHost, 0, 1)),
                         [](const auto& places) {
                           return std::string(NameOf(std::get<0>(places.param))) + "Then" +
                                  NameOf(std::get<1>(places.param));
                         });

TEST_P(SlowSignal, ArrivesAfterItsData) {
  constexpr size_t kBytes = 3000;
  Region source(a.pd.get(), 0, kBytes), data(b.pd.get(), std::get<0>(GetParam()), kBytes);
  Region values(a.pd.get(), kHost, 8), signal(b.pd.get(), std::get<1>(GetParam()), 8);
  const std::atomic_ref word(*reinterpret_cast<uint64_t*>(signal.data()));
  for (uint64_t round = 1; round <= 6; ++round) {
    std::iota(source.data(), source.data() + kBytes, static_cast<uint8_t>(round));
    Work(IBV_WR_RDMA_WRITE, {source.Sge(0, kBytes)}).To(data.address(), data.rkey()).Flags(0).Post(a);
    if (round % 2 == 0) {
      std::memcpy(values.data(), &round, sizeof round);
      Work(IBV_WR_RDMA_WRITE, {values.Sge(0, 8)}).To(signal.address(), signal.rkey()).Post(a);
    } else {
      Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {values.Sge(0, 8)})
          .FetchAdd(signal.address(), signal.rkey(), 1)
          .Post(a);
    }
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    while (word.load(std::memory_order_acquire) != round) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << round;
    }
    ASSERT_TRUE(std::equal(source.data(), source.data() + kBytes, data.data())) << round;
    ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  }
}

TEST_F(SlowGpu, CompletionComesAfterTheDataOfAllGpus) {
  Region source(a.pd.get(), 0, 64), first(b.pd.get(), 0, 64), second(b.pd.get(), 1, 64);
  for (uint8_t round = 1; round <= 5; ++round) {
    source.data()[63] = round;
    for (Region* const target : {&first, &second}) {
      Work(IBV_WR_RDMA_WRITE, {source.Sge(0, 64)})
          .To(target->address(), target->rkey())
          .Flags(target == &second ? IBV_SEND_SIGNALED : 0)
          .Post(a);
    }
    ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_EQ(first.data()[63], round);
    ASSERT_EQ(second.data()[63], round);
  }
}

/// The place of data that are relayed through host memory, and their size.
class SlowRelay : public SlowGpu, public testing::WithParamInterface<std::tuple<int, size_t>> {
 protected:
  const int place = std::get<0>(GetParam());
  const size_t bytes = std::get<1>(GetParam());
};

INSTANTIATE_TEST_SUITE_P(To, SlowRelay,
                         testing::Combine(testing::Values(kHost, 0, 1), testing::Values(8, 64, 70'000)),
                         [](const auto& relay) {
                           return NameOf(std::get<0>(relay.param)) + std::string("Bytes") +
                                  std::to_string(std::get<1>(relay.param));
                         });

TEST_P(SlowRelay, ReadSeesTheWriteBeforeIt) {
  Region gpu(a.pd.get(), 0, bytes), between(b.pd.get(), kHost, bytes), last(a.pd.get(), place, bytes);
  for (uint8_t round = 1; round <= 5; ++round) {
    std::fill_n(gpu.data(), bytes, round);
    Work(IBV_WR_RDMA_WRITE, {gpu.Sge(0, bytes)}).To(between.address(), between.rkey()).Flags(0).Post(a);
    Work read(IBV_WR_RDMA_READ, {last.Sge(0, bytes)});
    ASSERT_EQ(read.To(between.address(), between.rkey()).Run(a).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(std::equal(gpu.data(), gpu.data() + bytes, last.data())) << int{round};
  }
}

TEST_P(SlowRelay, FencedWriteSendsTheResultOfTheReadBeforeIt) {
  Region gpu(b.pd.get(), 0, bytes), between(a.pd.get(), kHost, bytes), last(b.pd.get(), place, bytes);
  for (uint8_t round = 1; round <= 5; ++round) {
    std::fill_n(gpu.data(), bytes, round);
    Work(IBV_WR_RDMA_READ, {between.Sge(0, bytes)}).To(gpu.address(), gpu.rkey()).Flags(0).Post(a);
    Work(IBV_WR_RDMA_WRITE, {between.Sge(0, bytes)})
        .To(last.address(), last.rkey())
        .Flags(IBV_SEND_FENCE | IBV_SEND_SIGNALED)
        .Post(a);
    ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
    ASSERT_TRUE(std::equal(gpu.data(), gpu.data() + bytes, last.data())) << int{round};
  }
}

TEST_F(SlowGpu, InlineDataOutliveTheirWqes) {
  Region target(b.pd.get(), 0, 8 * 24);
  for (size_t i = 0; i < 8; ++i) {
    std::string text(24, static_cast<char>('a' + i));
    Work(IBV_WR_RDMA_WRITE, {{reinterpret_cast<uint64_t>(text.data()), 24, 0}})
        .To(target.address() + i * 24, target.rkey())
        .Flags(IBV_SEND_INLINE | (i == 7 ? IBV_SEND_SIGNALED : 0))
        .Post(a);
  }
  ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  for (size_t i = 0; i < 8 * 24; ++i) ASSERT_EQ(target.data()[i], 'a' + i / 24);
}

TEST_F(SlowGpu, AcceptsMoreThanTheStagingMemoryHolds) {
  constexpr size_t kPart = 60'000, kParts = 30;
  Region source(a.pd.get(), kHost, kPart * kParts), target(b.pd.get(), 0, kPart * kParts);
  for (size_t i = 0; i < kParts; ++i) {
    std::fill_n(source.data() + i * kPart, kPart, static_cast<uint8_t>(i + 1));
    Work(IBV_WR_RDMA_WRITE, {source.Sge(i * kPart, kPart)})
        .To(target.address() + i * kPart, target.rkey())
        .Flags(i + 1 == kParts ? IBV_SEND_SIGNALED : 0)
        .Post(a);
  }
  ASSERT_EQ(Wait(a.send_cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(source.data(), source.data() + kPart * kParts, target.data()));
}

class SlowDevx : public SlowDriver, public Devx {};

TEST_F(SlowDevx, WritesNothingToTheQueuesAfterAReset) {
  CreateQueues(true);
  Connect();
  PostWrite(0, 0, 8, data.rkey());
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  while (Query().Get("qpc", "qpc.hw_sq_wqebb_counter") != 1) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  ASSERT_EQ(Modify(Mailbox("qp_2rst_in", k2Rst).Set("qpn", qpn)), 0);
  const std::atomic_ref tail(*reinterpret_cast<uint64_t*>(&memory[kCqRing + 56]));
  const uint64_t invalid = uint64_t{MLX5_CQE_INVALID << 4} << 56;
  tail.store(invalid);
  qp.reset();
  cq.reset();  // waits for all transfers in progress
  EXPECT_EQ(tail.load(), invalid);
}

TEST_F(SlowDevx, ShowsNoHalfWrittenErrorInACollapsedQueue) {
  CreateQueues(true);
  Connect();
  const std::atomic_ref upper(*reinterpret_cast<uint64_t*>(&memory[kCqRing + 56]));
  const std::atomic_ref lower(*reinterpret_cast<uint64_t*>(&memory[kCqRing + 48]));
  PostWrite(0, 0, 8, data.rkey() + 1);
  PostWrite(1, 0, 8, data.rkey());
  const auto deadline = std::chrono::steady_clock::now() + kDeadline;
  mlx5_cqe64 cqe{};
  auto* const tail = reinterpret_cast<uint64_t*>(&cqe) + 6;
  do {  // until the second CQE, which is flushed
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    tail[1] = upper.load(std::memory_order_acquire);
    tail[0] = lower.load(std::memory_order_acquire);
    if (upper.load(std::memory_order_acquire) != tail[1] || Opcode(cqe) != MLX5_CQE_REQ_ERR) continue;
    ASSERT_EQ(Error(cqe).syndrome, be16toh(cqe.wqe_counter) == 0 ? MLX5_CQE_SYNDROME_REMOTE_ACCESS_ERR
                                                                 : MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
  } while (Opcode(cqe) != MLX5_CQE_REQ_ERR || be16toh(cqe.wqe_counter) != 1);
}

}  // namespace
}  // namespace verbs
