// WQEs that the NIC executes without the peer (WAIT and DUMP), and fences.
#include <gtest/gtest.h>

#include "core/connected_pair.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::ToBe64;
using mlx5::WqeOpcode;

class LocalTest : public ConnectedPair {
 protected:
  LocalTest() : ConnectedPair(TestDevice(), {.cd_master = true}) {}

  static WqeBuilder WaitFor(uint32_t cqn, uint32_t index,
                            mlx5::WaitOpmod opmod = mlx5::WaitOpmod::kCqProducerIndex) {
    return WqeBuilder(WqeOpcode::kWait, static_cast<uint8_t>(opmod))
        .Add(mlx5::WaitSegment{{}, ToBe32(index), ToBe32(cqn)});
  }
  WqeBuilder Write() {
    return WqeBuilder(WqeOpcode::kRdmaWrite)
        .Remote(remote.Address(), remote.key)
        .Data(local.Address(), 8, local.key);
  }
  WqeBuilder Dump(const Region& region, size_t offset, uint32_t bytes) {
    return WqeBuilder(WqeOpcode::kDump).Data(region.Address(offset), bytes, region.key);
  }
};

/// Waits for completions that the test pushes to a queue.
class WaitTest : public LocalTest, public testing::WithParamInterface<bool> {
 protected:
  WaitTest() {
    CqConfig config = memory.Config();
    config.collapsed = GetParam();
    config.ignore_overrun = true;
    config.uar_page = a.uar;
    cqn = hca.CreateCq(std::move(config));
    Connect();
  }
  void Complete(int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(hca.FindCq(cqn)->Push({}));
  }
  /// Whether a WAIT for `index` completes at once.
  bool Passes(uint32_t index) {
    a.Post(WaitFor(cqn, index));
    Run();
    const bool passed = a.send_cq.Poll().has_value();
    a.Reset();
    b.Reset();
    Connect();
    return passed;
  }

  CqMemory memory{2};
  uint32_t cqn = 0;
};

TEST_P(WaitTest, BlocksUntilTheCompletionOfItsIndex) {
  a.Post(WaitFor(cqn, 1).Flags(mlx5::kCqeOnError));
  a.Post(Write());
  Run();
  Complete(1);
  Run();
  EXPECT_FALSE(a.send_cq.Poll()) << "that was the completion of index 0";
  Complete(1);
  Run();
  const Cqe cqe = a.send_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_index, 1);
}

TEST_P(WaitTest, CompletesWhenSignalled) {
  a.Post(WaitFor(cqn, 0));
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  Complete(1);
  Run();
  const Cqe cqe = a.send_cq.Poll().value();
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_opcode, static_cast<uint8_t>(WqeOpcode::kWait));
}

TEST_P(WaitTest, ComparesIndicesByDifferenceModulo24Bits) {
  Complete(11);
  EXPECT_TRUE(Passes(10));
  EXPECT_FALSE(Passes(11));
  EXPECT_TRUE(Passes(0xffffff)) << "long past";
  EXPECT_TRUE(Passes((10 - 0x7fffff) & 0xffffff)) << "half the circle behind";
  EXPECT_FALSE(Passes(10 + 0x7fffff)) << "half the circle ahead";
  EXPECT_TRUE(Passes(0x100000a));
  EXPECT_FALSE(Passes(0x100000b));
}

TEST_P(WaitTest, DoesNotBlockOtherQueuePairs) {
  a.Post(WaitFor(cqn, 0));
  Run();
  b.Post(Write());
  Run();
  EXPECT_EQ(b.send_cq.Poll().value().opcode, CqeOpcode::kRequester) << "its peer waits, but answers";
  EXPECT_FALSE(a.send_cq.Poll());
}

TEST_P(WaitTest, EndsOnErrorAndOnReset) {
  a.Post(WaitFor(cqn, 0));
  Run();
  hca.ModifyQp(a.qpn, QpState::kError, {});
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, Syndrome::kFlushed);
  a.Reset();
  b.Reset();
  Connect();
  a.Post(WaitFor(cqn, 0));
  Run();
  a.Reset();
  b.Reset();
  Connect();
  EXPECT_EQ(LocalTest::Complete(a, Write()).opcode, CqeOpcode::kRequester);
}

TEST_P(WaitTest, FailsWhenTheQueueIsDestroyed) {
  a.Post(WaitFor(cqn, 0));
  Run();
  hca.DestroyCq(cqn);
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, Syndrome::kLocalQpOperation);
}

INSTANTIATE_TEST_SUITE_P(Queues, WaitTest, testing::Bool(),
                         [](const auto& collapsed) { return collapsed.param ? "Collapsed" : "Ring"; });

TEST_F(LocalTest, WaitFollowsTheCompletionsOfAnotherQueuePair) {
  Connect();
  QpUser companion(hca, pd, {.cd_master = true});
  companion.Connect(companion);
  companion.Post(WaitFor(a.send_cqn, 1).Flags(mlx5::kCqeOnError));
  companion.Post(WqeBuilder(WqeOpcode::kNop));
  a.Post(Write());
  Run();
  requester.Run(companion.qp(), now_ns);
  EXPECT_FALSE(companion.send_cq.Poll());
  a.Post(Write());
  Run();
  requester.Run(companion.qp(), now_ns);
  EXPECT_EQ(companion.send_cq.Poll().value().wqe_index, 1);
}

TEST_F(LocalTest, RefusesMalformedWaits) {
  const uint32_t cqn = a.send_cqn;
  const WqeBuilder malformed[] = {WaitFor(cqn + 0x1000, 0),
                                  WaitFor(cqn | 0x1000000, 0),
                                  WaitFor(cqn, 0, mlx5::WaitOpmod::kData),
                                  WaitFor(cqn, 0, mlx5::WaitOpmod::kTime),
                                  WqeBuilder(WqeOpcode::kWait),
                                  WaitFor(cqn, 0).Data(local.Address(), 8, local.key)};
  for (const WqeBuilder& wqe : malformed) {
    Connect();
    EXPECT_EQ(Complete(a, wqe).syndrome, Syndrome::kLocalQpOperation);
    EXPECT_EQ(a.qp().state, QpState::kError);
    a.Reset();
    b.Reset();
  }
}

TEST_F(LocalTest, WaitNeedsACdMasterQueuePair) {
  QpUser plain(hca, pd);
  plain.Connect(plain);
  plain.Post(WaitFor(a.send_cqn, 0));
  requester.Run(plain.qp(), now_ns);
  EXPECT_EQ(plain.send_cq.Poll().value().syndrome, Syndrome::kLocalQpOperation);
}

TEST_F(LocalTest, DumpCompletesInOrderWithoutThePeer) {
  a.Connect(b);  // b stays in RESET
  a.Post(Dump(local, 0, 8).Flags(mlx5::kCqeOnError));
  const Cqe cqe = Complete(a, Dump(local, 100, 1));
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_opcode, static_cast<uint8_t>(WqeOpcode::kDump));
  EXPECT_EQ(cqe.wqe_index, 1);
  EXPECT_FALSE(a.send_cq.Poll());
}

TEST_F(LocalTest, DumpChecksKeyAndBounds) {
  const Region foreign(hca, hca.AllocPd(), 64);
  const auto fails = [&](const WqeBuilder& wqe) {
    Connect();
    const Syndrome syndrome = Complete(a, wqe).syndrome;
    a.Reset();
    b.Reset();
    return syndrome;
  };
  EXPECT_EQ(fails(Dump(local, 16380, 8)), Syndrome::kLocalProtection);
  EXPECT_EQ(fails(Dump(foreign, 0, 8)), Syndrome::kLocalProtection);
  EXPECT_EQ(fails(WqeBuilder(WqeOpcode::kDump)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(fails(WqeBuilder(WqeOpcode::kDump).Inline("12345678")), Syndrome::kLocalQpOperation);
  EXPECT_EQ(fails(Dump(local, 0, 8).Data(local.Address(), 8, local.key)), Syndrome::kLocalQpOperation);
}

TEST_F(LocalTest, FencedWqeSeesTheResultsOfEarlierReadsAndAtomics) {
  Connect();
  remote.As<uint64_t>(0) = 7;
  remote.As<uint64_t>(8) = 30;
  for (const uint8_t fence : {mlx5::kFence, mlx5::kFenceInitiatorSmall}) {
    const auto flags = static_cast<uint8_t>(fence | mlx5::kCqeAlways);
    a.Post(WqeBuilder(WqeOpcode::kRdmaRead)
               .Remote(remote.Address(0), remote.key)
               .Data(local.Address(0), 8, local.key)
               .Flags(mlx5::kCqeOnError));
    a.Post(WqeBuilder(WqeOpcode::kAtomicFa)
               .Remote(remote.Address(8), remote.key)
               .Add(mlx5::AtomicSegment{ToBe64(1), {}})
               .Data(local.Address(8), 8, local.key)
               .Flags(mlx5::kCqeOnError));
    const Cqe cqe = Complete(a, WqeBuilder(WqeOpcode::kRdmaWrite)
                                    .Remote(remote.Address(64), remote.key)
                                    .Data(local.Address(), 16, local.key)
                                    .Flags(flags));
    EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester) << int{fence};
    EXPECT_EQ(remote.As<uint64_t>(64), remote.As<uint64_t>(0));
    EXPECT_EQ(remote.As<uint64_t>(72), remote.As<uint64_t>(8) - 1);
    remote.As<uint64_t>(0) = 8;
  }
}

}  // namespace
}  // namespace softhca
