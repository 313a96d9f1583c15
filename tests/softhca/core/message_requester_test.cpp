#include "core/message_requester.hpp"

#include <gtest/gtest.h>

#include <string>

#include "core/connected_pair.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::QpState;
using mlx5::Syndrome;
using mlx5::WqeOpcode;

constexpr uint64_t kMicrosecond = 1000;

class MessageRequesterTest : public ConnectedPair {
 protected:
  WqeBuilder Write(uint32_t bytes = 8) {
    return WqeBuilder(WqeOpcode::kRdmaWrite)
        .Remote(remote.Address(), remote.key)
        .Data(local.Address(), bytes, local.key);
  }
  WqeBuilder Send(uint32_t bytes = 8) {
    return WqeBuilder(WqeOpcode::kSend).Data(local.Address(), bytes, local.key);
  }
  /// Runs until the sender completes.
  ///
  /// @return  nanoseconds that passed on the test's clock
  uint64_t RunUntilCompletion(Cqe& cqe) {
    const uint64_t start_ns = now_ns;
    while (now_ns - start_ns < 1'000'000 * kMicrosecond) {
      Run();
      if (const auto polled = a.send_cq.Poll()) {
        cqe = *polled;
        return now_ns - start_ns;
      }
      now_ns += kMicrosecond;
    }
    ADD_FAILURE() << "no completion within a second";
    return 0;
  }
};

TEST_F(MessageRequesterTest, CompletesASignalledWqeWithItsIndexAndOpcode) {
  Connect();
  for (uint16_t i = 0; i < 3; ++i) {
    const Cqe cqe = Complete(a, Write());
    EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
    EXPECT_EQ(cqe.wqe_index, i);
    EXPECT_EQ(cqe.wqe_opcode, static_cast<uint8_t>(WqeOpcode::kRdmaWrite));
    EXPECT_EQ(cqe.qpn, a.qpn);
  }
}

TEST_F(MessageRequesterTest, CompletesUnsignalledWqesSilently) {
  Connect();
  a.Post(Write().Flags(mlx5::kCqeOnError));
  a.Post(Write().Flags(mlx5::kCqeOnError));
  EXPECT_EQ(Complete(a, Write()).wqe_index, 2);
  EXPECT_FALSE(a.send_cq.Poll());
}

TEST_F(MessageRequesterTest, ReportsTheBytesOfAReadButNotOfAWrite) {
  Connect();
  EXPECT_EQ(Complete(a, Write(24)).bytes, 0u);
  EXPECT_EQ(Complete(a, WqeBuilder(WqeOpcode::kRdmaRead)
                            .Remote(remote.Address(), remote.key)
                            .Data(local.Address(), 24, local.key))
                .bytes,
            24u);
}

TEST_F(MessageRequesterTest, CompletesANopWithoutAPeer) {
  a.Connect(a, {.remote_qpn = 0xdead});
  EXPECT_EQ(Complete(a, WqeBuilder(WqeOpcode::kNop)).opcode, CqeOpcode::kRequester);
}

TEST_F(MessageRequesterTest, WrapsIndicesAt16BitsAndSequenceNumbersAt24) {
  Connect({.receive_psn = 0xfffff0, .send_psn = 0xfffff0}, {.receive_psn = 0xfffff0, .send_psn = 0xfffff0});
  for (uint32_t i = 0; i < 70000; ++i) {
    a.Post(Write());
    ASSERT_TRUE(requester.Run(a.qp(), now_ns));
    const auto cqe = a.send_cq.Poll();
    ASSERT_TRUE(cqe) << i;
    ASSERT_EQ(cqe->opcode, CqeOpcode::kRequester) << i;
    ASSERT_EQ(cqe->wqe_index, static_cast<uint16_t>(i));
  }
}

TEST_F(MessageRequesterTest, YieldsAfterABurst) {
  QpUser deep(hca, pd, {.send_depth = 256, .log_cq_depth = 8});
  deep.Connect(b);
  b.Connect(deep);
  for (int i = 0; i < 100; ++i) deep.Post(Write());
  EXPECT_TRUE(requester.Run(deep.qp(), now_ns));
  const uint32_t first_turn = deep.qp().send_index;
  EXPECT_GT(first_turn, 0u);
  EXPECT_LT(first_turn, 100u);
  EXPECT_TRUE(requester.Run(deep.qp(), now_ns));
  EXPECT_EQ(deep.qp().send_index, 100u);
}

TEST_F(MessageRequesterTest, ErrorFlushesLaterWqesSignalledOrNot) {
  Connect();
  a.Post(WqeBuilder(WqeOpcode::kRdmaWrite).Remote(remote.Address(), 0).Data(local.Address(), 8, local.key));
  a.Post(Write().Flags(mlx5::kCqeOnError));
  a.Post(Write());
  Run();
  const Cqe first = a.send_cq.Poll().value();
  EXPECT_EQ(first.opcode, CqeOpcode::kRequesterError);
  EXPECT_EQ(first.syndrome, Syndrome::kRemoteAccess);
  for (const uint16_t index : {1, 2}) {
    const Cqe flushed = a.send_cq.Poll().value();
    EXPECT_EQ(flushed.syndrome, Syndrome::kFlushed);
    EXPECT_EQ(flushed.wqe_index, index);
  }
  EXPECT_FALSE(a.send_cq.Poll());
  EXPECT_EQ(a.qp().state, QpState::kError);
  EXPECT_EQ(Complete(a, Write()).syndrome, Syndrome::kFlushed) << "later WQEs are flushed, too";
}

TEST_F(MessageRequesterTest, InjectedFailureReplacesTheWqeWithoutThePeer) {
  Connect();
  a.qp().injected_failures[1] = {Syndrome::kTransportRetryExceeded, 0x77};
  a.qp().injected_failures[3] = {Syndrome::kRemoteAccess, 0x88};
  local.As<uint64_t>() = 5;
  a.Post(Write(8).Flags(mlx5::kCqeOnError));
  Run();
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
  local.As<uint64_t>() = 6;
  for (int i = 0; i < 3; ++i) a.Post(Write(8).Flags(mlx5::kCqeOnError));
  Run();
  const Cqe failed = a.send_cq.Poll().value();
  EXPECT_EQ(failed.wqe_index, 1);
  EXPECT_EQ(failed.syndrome, Syndrome::kTransportRetryExceeded);
  EXPECT_EQ(failed.wqe_opcode, static_cast<uint8_t>(WqeOpcode::kRdmaWrite));
  for (const uint16_t index : {2, 3}) {
    const Cqe flushed = a.send_cq.Poll().value();
    EXPECT_EQ(flushed.wqe_index, index);
    EXPECT_EQ(flushed.syndrome, Syndrome::kFlushed) << "a flushed WQE ignores its injected failure";
  }
  EXPECT_EQ(remote.As<uint64_t>(), 5u);
  EXPECT_EQ(b.qp().state, QpState::kRts);
}

TEST_F(MessageRequesterTest, ResetClearsInjectedFailuresButKeepsThePause) {
  Connect();
  a.qp().injected_failures[0] = {Syndrome::kRemoteAccess, 0};
  a.qp().paused = true;
  a.Reset();
  b.Reset();
  Connect();
  a.Post(Write());
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  a.qp().paused = false;
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().opcode, CqeOpcode::kRequester);
}

TEST_F(MessageRequesterTest, PausedQueuePairUsesUpNoRetries) {
  a.Connect(b, {.ack_timeout = 5, .retry_count = 0});  // b stays in RESET
  a.Post(Write());
  Run();
  a.qp().paused = true;
  now_ns += 1'000'000 * kMicrosecond;
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  a.qp().paused = false;
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, Syndrome::kTransportRetryExceeded);
}

TEST_F(MessageRequesterTest, FlushStopsAtTheRecordWhenALengthIsWrong) {
  Connect();
  a.Post(WqeBuilder(WqeOpcode::kSend).Inline(std::string(200, 'x')));
  a.SetSendRecord(1);  // covers only the first of the WQE's four blocks
  Run();
  EXPECT_EQ(a.send_cq.Poll().value().syndrome, Syndrome::kLocalQpOperation);
  EXPECT_FALSE(a.send_cq.Poll());
  EXPECT_EQ(a.qp().send_index, 1u);
}

TEST_F(MessageRequesterTest, ErrorFlushesPostedReceives) {
  Connect();
  a.PostReceive({Data(local, 0, 64)});
  a.PostReceive({Data(local, 64, 64)});
  hca.ModifyQp(a.qpn, QpState::kError, {});
  Run();
  for (const uint16_t index : {0, 1}) {
    const Cqe cqe = a.receive_cq.Poll().value();
    EXPECT_EQ(cqe.opcode, CqeOpcode::kResponderError);
    EXPECT_EQ(cqe.syndrome, Syndrome::kFlushed);
    EXPECT_EQ(cqe.wqe_index, index);
  }
  EXPECT_FALSE(a.receive_cq.Poll());
  a.PostReceive({Data(local, 0, 64)});
  Run();
  EXPECT_EQ(a.receive_cq.Poll().value().wqe_index, 2);
}

TEST_F(MessageRequesterTest, FailsAWqeBeforeRts) {
  a.ConnectToRtr(b);
  EXPECT_EQ(Complete(a, Write()).syndrome, Syndrome::kLocalQpOperation);
  EXPECT_EQ(a.qp().state, QpState::kError);
}

TEST_F(MessageRequesterTest, ResetRestoresAFailedQueuePair) {
  Connect();
  hca.ModifyQp(a.qpn, QpState::kError, {});
  EXPECT_EQ(Complete(a, Write()).syndrome, Syndrome::kFlushed);
  a.Reset();
  b.Reset();
  Connect();
  const Cqe cqe = Complete(a, Write());
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
  EXPECT_EQ(cqe.wqe_index, 0);
}

TEST_F(MessageRequesterTest, GivesUpRetriesAfterTheConfiguredTime) {
  a.Connect(b, {.ack_timeout = 5, .retry_count = 3});  // b stays in RESET
  a.Post(Write());
  Cqe cqe{};
  const uint64_t took_ns = RunUntilCompletion(cqe);
  EXPECT_EQ(cqe.syndrome, Syndrome::kTransportRetryExceeded);
  constexpr uint64_t kTimeoutNs = 4096 << 5;
  EXPECT_GE(took_ns, 4 * kTimeoutNs);
  EXPECT_LE(took_ns, 4 * kTimeoutNs + 4 * kMicrosecond);
}

TEST_F(MessageRequesterTest, GivesUpAfterOneTimeoutWithoutRetries) {
  a.Connect(b, {.ack_timeout = 5, .retry_count = 0});
  a.Post(Write());
  Cqe cqe{};
  EXPECT_LE(RunUntilCompletion(cqe), (4096u << 5) + kMicrosecond);
  EXPECT_EQ(cqe.syndrome, Syndrome::kTransportRetryExceeded);
}

TEST_F(MessageRequesterTest, ServesAPeerThatConnectsBeforeTheLastRetry) {
  a.Connect(b, {.ack_timeout = 5, .retry_count = 7});
  a.Post(Write());
  Run();
  EXPECT_FALSE(a.send_cq.Poll());
  b.Connect(a);
  Cqe cqe{};
  RunUntilCompletion(cqe);
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
}

TEST_F(MessageRequesterTest, WaitsForeverWhenTheTimeoutIsZero) {
  a.Connect(b, {.ack_timeout = 0, .retry_count = 0});
  a.Post(Write());
  for (int i = 0; i < 1000; ++i) {
    Run();
    now_ns += 1'000'000'000;
  }
  EXPECT_FALSE(a.send_cq.Poll());
}

TEST_F(MessageRequesterTest, CountsRetriesPerWqe) {
  Connect({.ack_timeout = 5, .retry_count = 1});
  for (int i = 0; i < 3; ++i) {
    b.qp().state = QpState::kInit;  // deaf for one timeout
    a.Post(Write());
    Run();
    b.qp().state = QpState::kRts;
    Cqe cqe{};
    RunUntilCompletion(cqe);
    ASSERT_EQ(cqe.opcode, CqeOpcode::kRequester) << i;
  }
}

TEST_F(MessageRequesterTest, WaitsForAReceiveAsLongAsThePeerAsks) {
  Connect({.rnr_retry = 7}, {.min_rnr_timer = 8});  // 0.16 ms
  a.Post(Send());
  Run();
  b.PostReceive({Data(remote, 0, 64)});
  Cqe cqe{};
  const uint64_t took_ns = RunUntilCompletion(cqe);
  EXPECT_EQ(cqe.opcode, CqeOpcode::kRequester);
  EXPECT_GE(took_ns, 160 * kMicrosecond);
  EXPECT_LE(took_ns, 161 * kMicrosecond);
  EXPECT_EQ(b.receive_cq.Poll().value().bytes, 8u);
}

TEST_F(MessageRequesterTest, GivesUpWhenRnrRetriesRunOut) {
  Connect({.rnr_retry = 2}, {.min_rnr_timer = 8});
  a.Post(Send());
  Cqe cqe{};
  const uint64_t took_ns = RunUntilCompletion(cqe);
  EXPECT_EQ(cqe.syndrome, Syndrome::kReceiverNotReadyRetryExceeded);
  EXPECT_GE(took_ns, 2 * 160 * kMicrosecond);
  EXPECT_LE(took_ns, 2 * 161 * kMicrosecond);
  EXPECT_EQ(b.qp().state, QpState::kRts) << "the receiver did nothing wrong";
}

TEST_F(MessageRequesterTest, GivesUpAtOnceWhenRnrRetryIsZero) {
  Connect({.rnr_retry = 0});
  EXPECT_EQ(Complete(a, Send()).syndrome, Syndrome::kReceiverNotReadyRetryExceeded);
}

TEST_F(MessageRequesterTest, NeverGivesUpWhenRnrRetryIsSeven) {
  Connect({.rnr_retry = 7}, {.min_rnr_timer = 1});
  a.Post(Send());
  for (int i = 0; i < 1000; ++i) {
    Run();
    now_ns += 10 * kMicrosecond;
  }
  EXPECT_FALSE(a.send_cq.Poll());
}

TEST_F(MessageRequesterTest, CompletionQueueOverrunStopsTheQueuePair) {
  QpUser small(hca, pd, {.log_cq_depth = 1});
  small.Connect(b);
  b.Connect(small);
  for (int i = 0; i < 3; ++i) small.Post(Write());
  requester.Run(small.qp(), now_ns);
  EXPECT_EQ(small.qp().state, QpState::kError);
  EXPECT_TRUE(hca.FindCq(small.send_cqn)->failed());
}

}  // namespace
}  // namespace softhca
