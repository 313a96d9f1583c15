#include <fcntl.h>
#include <gtest/gtest.h>

#include <optional>

#include "readable.hpp"
#include "verbs/peer.hpp"

namespace verbs {
namespace {

constexpr int kDeadlineMs = 20'000;

/// Two peers whose completion queues report to a channel each.
class CompletionChannel : public testing::Test {
 protected:
  CompletionChannel() {
    a.Connect(b);
    b.Connect(a);
  }
  /// Waits for an event and acknowledges it.
  ibv_cq* Next() {
    if (!Readable(channel->fd, kDeadlineMs)) {
      ADD_FAILURE() << "no event";
      return nullptr;
    }
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    EXPECT_EQ(ibv_get_cq_event(channel.get(), &cq, &cq_context), 0);
    ibv_ack_cq_events(cq, 1);
    return cq;
  }
  bool HasNoEvent() const { return !Readable(channel->fd, 0); }
  void Send(unsigned flags = IBV_SEND_SIGNALED) {
    b.PostReceive({remote.Sge(0, 8)});
    Work(IBV_WR_SEND, {local.Sge(0, 8)}).Flags(flags | IBV_SEND_SIGNALED).Run(a);
  }

  Context context = Open();
  Channel channel{ibv_create_comp_channel(context.get())};
  Peer a{context.get()};
  Peer b{context.get(), {.channel = channel.get()}};
  Buffer local{a.pd.get(), 64}, remote{b.pd.get(), 64};
};

TEST_F(CompletionChannel, ReportsTheCompletionAfterTheFirstArm) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  EXPECT_TRUE(HasNoEvent());
  Send();
  EXPECT_EQ(Next(), b.receive_cq.get());
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
}

TEST_F(CompletionChannel, ReportsOneEventPerArm) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  for (int i = 0; i < 3; ++i) Send();
  EXPECT_EQ(Next(), b.receive_cq.get());
  for (int i = 0; i < 3; ++i) Wait(b.receive_cq.get());
  EXPECT_TRUE(HasNoEvent());
}

TEST_F(CompletionChannel, ReportsNothingWithoutAnArm) {
  Send();
  Wait(b.receive_cq.get());
  EXPECT_TRUE(HasNoEvent());
}

TEST_F(CompletionChannel, ReportsAnUnpolledCompletionWhenArmedLate) {
  Send();
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  EXPECT_EQ(Next(), b.receive_cq.get());
}

TEST_F(CompletionChannel, WaitsForTheNextCompletionWhenArmedAfterPolling) {
  Send();
  Wait(b.receive_cq.get());
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote).Run(a).status, IBV_WC_SUCCESS);
  EXPECT_TRUE(HasNoEvent());
  Send();
  EXPECT_EQ(Next(), b.receive_cq.get());
}

TEST_F(CompletionChannel, ServesManyRoundsOfArmAndWait) {
  for (int i = 0; i < 500; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
    Send();
    ASSERT_EQ(Next(), b.receive_cq.get()) << i;
    ASSERT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_SUCCESS);
  }
}

TEST_F(CompletionChannel, SolicitedArmIgnoresOrdinaryCompletions) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 1), 0);
  Send();
  Wait(b.receive_cq.get());
  EXPECT_TRUE(HasNoEvent());
  Send(IBV_SEND_SOLICITED);
  EXPECT_EQ(Next(), b.receive_cq.get());
}

TEST_F(CompletionChannel, SolicitedArmKeepsAnArmForAll) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  EXPECT_EQ(b.State(), IBV_QPS_RTS) << "the hardware has seen the doorbell: the next one overwrites it";
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 1), 0);
  Send();
  EXPECT_EQ(Next(), b.receive_cq.get());
}

TEST_F(CompletionChannel, SolicitedArmReportsErrors) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 1), 0);
  b.PostReceive({remote.Sge(0, 8)});
  b.To(IBV_QPS_ERR);
  EXPECT_EQ(Next(), b.receive_cq.get());
  EXPECT_EQ(Wait(b.receive_cq.get()).status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CompletionChannel, NamesTheQueueOfEachEvent) {
  ASSERT_EQ(ibv_req_notify_cq(b.send_cq.get(), 0), 0);
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  Send();
  EXPECT_EQ(Next(), b.receive_cq.get());
  Work(IBV_WR_RDMA_WRITE, {remote.Sge(0, 8)}).To(local).Post(b);
  EXPECT_EQ(Next(), b.send_cq.get());
}

TEST_F(CompletionChannel, UnreadEventDoesNotBlockDestruction) {
  ASSERT_EQ(ibv_req_notify_cq(b.receive_cq.get(), 0), 0);
  Send();
  Wait(b.receive_cq.get());
  ASSERT_TRUE(Readable(channel->fd, kDeadlineMs));
}

/// Events of a device other than completions.
class AsyncEvent : public TwoPeers {
 protected:
  static ibv_async_event Next(const Context& context) {
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    if (Readable(context->async_fd, kDeadlineMs)) {
      EXPECT_EQ(ibv_get_async_event(context.get(), &event), 0);
      ibv_ack_async_event(&event);
    } else {
      ADD_FAILURE() << "no event";
    }
    return event;
  }
};

TEST_F(AsyncEvent, ReportsAnAccessErrorToTheResponder) {
  Connect();
  EXPECT_EQ(Work(IBV_WR_RDMA_WRITE, {local.Sge(0, 8)}).To(remote.Address(), 0).Run(a).status,
            IBV_WC_REM_ACCESS_ERR);
  const ibv_async_event event = Next(context_b);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
  EXPECT_EQ(event.element.qp, b.qp.get());
  EXPECT_FALSE(Readable(context_a->async_fd, 0));
}

TEST_F(AsyncEvent, ReportsAnInvalidRequestToTheResponder) {
  Connect();
  EXPECT_EQ(Work(IBV_WR_ATOMIC_FETCH_AND_ADD, {local.Sge(0, 8)}).FetchAdd(remote, 4, 1).Run(a).status,
            IBV_WC_REM_INV_REQ_ERR);
  const ibv_async_event event = Next(context_b);
  EXPECT_EQ(event.event_type, IBV_EVENT_QP_REQ_ERR);
  EXPECT_EQ(event.element.qp, b.qp.get());
}

TEST_F(AsyncEvent, ReportsAnOverrunOfACompletionQueue) {
  Peer small(context_a.get(), {.cqes = 1});
  Buffer memory(small.pd.get(), 8);
  small.Connect(b);
  b.Connect(small);
  ibv_cq* const cq = small.send_cq.get();
  for (int i = 0; i <= cq->cqe + 1; ++i) {
    Work(IBV_WR_RDMA_WRITE, {memory.Sge(0, 8)}).To(remote).Post(small);
  }
  const ibv_async_event event = Next(context_a);
  EXPECT_EQ(event.event_type, IBV_EVENT_CQ_ERR);
  EXPECT_EQ(event.element.cq, cq);
  EXPECT_EQ(ibv_resize_cq(cq, 100), EINVAL) << "its completions are lost";
}

TEST_F(AsyncEvent, ReportsTheLimitOfASharedQueueAndItsLastReceive) {
  Peer shared(context_b.get(), {.shared = true});
  Buffer memory(shared.pd.get(), 8);
  a.Connect(shared);
  shared.Connect(a);
  for (int i = 0; i < 4; ++i) shared.PostReceive({memory.Sge(0, 8)});
  ibv_srq_attr attr{.max_wr = 0, .max_sge = 0, .srq_limit = 3};
  ASSERT_EQ(ibv_modify_srq(shared.srq.get(), &attr, IBV_SRQ_LIMIT), 0);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(Work(IBV_WR_SEND, {local.Sge(0, 8)}).Run(a).status, IBV_WC_SUCCESS);
  const ibv_async_event limit = Next(context_b);
  EXPECT_EQ(limit.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
  EXPECT_EQ(limit.element.srq, shared.srq.get());
  attr.max_wr = 100;
  EXPECT_EQ(ibv_modify_srq(shared.srq.get(), &attr, IBV_SRQ_MAX_WR), EINVAL)
      << "mlx5 resizes no shared queue";

  shared.To(IBV_QPS_ERR);
  const ibv_async_event last = Next(context_b);
  EXPECT_EQ(last.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
  EXPECT_EQ(last.element.qp, shared.qp.get());
}

TEST_F(AsyncEvent, ReturnsAtOnceOnANonBlockingFile) {
  const int flags = fcntl(context_a->async_fd, F_GETFL);
  ASSERT_EQ(fcntl(context_a->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
  ibv_async_event event{};
  errno = 0;
  EXPECT_EQ(ibv_get_async_event(context_a.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

}  // namespace
}  // namespace verbs
