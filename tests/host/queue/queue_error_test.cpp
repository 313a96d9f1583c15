#include "warpverbs/host/queue_error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include "events/event.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace warpverbs::host {
namespace {

using mlx5::Syndrome;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

QueueError Failed(Syndrome syndrome) {
  EndpointInfo peer;
  peer.qpn = 18;
  peer.gid.raw = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  return {.qpn = 17,
          .peer = peer,
          .syndrome = static_cast<uint8_t>(syndrome),
          .vendor_syndrome = 0x88,
          .opcode = static_cast<uint8_t>(mlx5::WqeOpcode::kRdmaWrite),
          .wqe_index = 5};
}

TEST(QueueError, NamesQueuePairPeerOperationIndexCauseAndRemedy) {
  EXPECT_EQ(
      Failed(Syndrome::kRemoteAccess).Describe(),
      "The send queue of QP 17 to QP 18 at 10.0.0.2 failed in the RDMA write at WQE index 5: remote access "
      "error: the rkey does not allow this operation on this range (syndrome 0x13, vendor syndrome 0x88). "
      "Check the rkey and its byte order (MemoryView::Remote() has it big-endian), that the range is inside "
      "its region, and that the region and the peer's endpoint grant the operation.");
}

TEST(QueueError, HasARemedyForEverySyndrome) {
  for (const Syndrome syndrome :
       {Syndrome::kLocalLength, Syndrome::kLocalQpOperation, Syndrome::kLocalProtection,
        Syndrome::kMemoryWindowBind, Syndrome::kBadResponse, Syndrome::kLocalAccess,
        Syndrome::kRemoteInvalidRequest, Syndrome::kRemoteAccess, Syndrome::kRemoteOperation,
        Syndrome::kTransportRetryExceeded, Syndrome::kReceiverNotReadyRetryExceeded,
        Syndrome::kRemoteAborted}) {
    EXPECT_THAT(Failed(syndrome).Describe(),
                AllOf(HasSubstr(std::string(": ") + mlx5::Describe(syndrome) + " (syndrome 0x"),
                      testing::ContainsRegex("\\)\\. (Check|Compare|Create|Look) .+\\.$")));
  }
}

TEST(QueueError, SaysThatACollapsedCqLostTheCauseOfAFlush) {
  QueueError error = Failed(Syndrome::kFlushed);
  error.cq_mode = CqMode::kCollapsed;
  EXPECT_EQ(
      error.Describe(),
      "The send queue of QP 17 to QP 18 at 10.0.0.2 failed at WQE index 5: the only error seen is a work "
      "request that was flushed after another one had failed (syndrome 0x05, vendor syndrome 0x88). If a "
      "send was the cause, a collapsed CQ has lost it: create the endpoint with CqMode::kRing, which "
      "keeps it. Otherwise look at the completions of the receive queue and at the peer.");
}

TEST(QueueError, SaysWhereToFindTheCauseOfAFlushOnARing) {
  EXPECT_THAT(Failed(Syndrome::kFlushed).Describe(),
              AllOf(HasSubstr("the completions of the receive queue"), Not(HasSubstr("CqMode"))));
}

TEST(QueueError, DescribesAReceive) {
  QueueError error = Failed(Syndrome::kLocalLength);
  error.receiving = true;
  const std::string text = error.Describe();
  EXPECT_THAT(text, testing::StartsWith("The receive queue of QP 17 to QP 18 at 10.0.0.2 failed at WQE index "
                                        "5: "));
  EXPECT_THAT(text,
              testing::EndsWith(" (syndrome 0x01, vendor syndrome 0x88). Post receives that are as long "
                                "as the peer's longest message."));
  error.syndrome = static_cast<uint8_t>(Syndrome::kFlushed);
  EXPECT_THAT(error.Describe(), HasSubstr("No send or receive failed before it"));
}

TEST(QueueError, SaysThatAPosterGaveUpAReservedWqe) {
  EXPECT_EQ(
      Failed(Syndrome::kNone).Describe(),
      "The send queue of QP 17 to QP 18 at 10.0.0.2 failed at WQE index 5: the poster of this WQE gave up "
      "waiting for an earlier one to ring the doorbell (10 s passed, or the abort word was set), so no later "
      "poster can post. Look for a kernel that ended, was aborted or is held up between reserving and "
      "ringing, then call Reset().");
}

TEST(QueueError, SaysThatTheNicStoppedAQueuePairWithoutAFailure) {
  QueueError error = Failed(Syndrome::kNone);
  error.stopped = true;
  EXPECT_EQ(
      error.Describe(),
      "The NIC moved QP 17 to QP 18 at 10.0.0.2 to its error state, and no send or receive of this side "
      "has failed: usually it refused a request of the peer. Look at the peer's error; check the rkey, "
      "the range and the rights that it uses; then call Reset() and Connect() on both sides.");
}

TEST(QueueError, SaysThatNoPeerIsConnected) {
  QueueError error = Failed(Syndrome::kLocalQpOperation);
  error.peer.reset();
  EXPECT_THAT(error.Describe(),
              AllOf(HasSubstr("The send queue of QP 17, which is not connected, failed in the"),
                    EndsWith(". Call Connect() first.")));
}

TEST(QueueError, EndsWithTheEventThatMayBeTheCause) {
  QueueError error = Failed(Syndrome::kTransportRetryExceeded);
  error.event = VerbsEvent("mlx5_0", IBV_EVENT_PORT_ERR, 1);
  EXPECT_THAT(error.Describe(),
              AllOf(HasSubstr("failed in the RDMA write"),
                    HasSubstr("Port 1 of mlx5_0 lost its link (IBV_EVENT_PORT_ERR). Check")));
}

TEST(QueueError, IsTheEventAloneIfNothingWasPosted) {
  QueueError error = Failed(Syndrome::kNone);
  error.event = VerbsEvent("mlx5_0", IBV_EVENT_DEVICE_FATAL, 0);
  EXPECT_THAT(error.Describe(),
              testing::StartsWith("The waits on QP 17 to QP 18 at 10.0.0.2 were aborted. The device "
                                  "mlx5_0 failed (IBV_EVENT_DEVICE_FATAL). "));
}

TEST(QueueError, DisconnectedEndpointReportsOnlyTheDisconnect) {
  QueueError error = Failed(Syndrome::kFlushed);
  error.disconnected = true;
  EXPECT_THAT(error.Describe(), AllOf(HasSubstr("Disconnect() was called"), Not(HasSubstr("look at"))));
}

TEST(Event, DescribesEveryKind) {
  for (int type = IBV_EVENT_CQ_ERR; type <= IBV_EVENT_WQ_FATAL; ++type) {
    const Event event = VerbsEvent("mlx5_7", type, 2);
    EXPECT_THAT(event.Describe(), AllOf(HasSubstr("mlx5_7"), HasSubstr("(" + event.name + ")"))) << type;
    EXPECT_EQ(event.port, IsPortEvent(type) ? 2 : 0);
  }
}

}  // namespace
}  // namespace warpverbs::host
