#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "host/endpoint/link.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/queue_pool.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Parts of an endpoint beside its send queue: receives, sink, regions, WAIT.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class EndpointQueues : public testing::Test {
 protected:
  std::string WhyRefused(const EndpointConfig& config) const {
    return host::WhyRefused([&] { Endpoint(device_, config); });
  }

  /// Returns the line of a description that tells size and place of the registered queue memory.
  static std::string QueueLine(const Endpoint& endpoint) {
    const std::string text = endpoint.Describe();
    const size_t at = text.find("bytes of host memory");
    if (at == std::string::npos) return text;
    const size_t start = text.rfind('\n', at) + 1;
    return text.substr(start, text.find('\n', at) - start);
  }

  Device device_;
};

TEST_F(EndpointQueues, HaveARingOfTheDepthAskedFor) {
  EXPECT_EQ(Endpoint(device_, {.depth = 16, .cq_mode = CqMode::kRing}).CompletionView().depth, 16u);
  Link link(device_, {.depth = 16, .cq_mode = CqMode::kRing, .cq_depth = 1000});
  EXPECT_EQ(link.a.CompletionView().depth, 1024u);
  link.Connect();
  for (int i = 0; i < 1100; ++i) ASSERT_TRUE(link.Write(1).ok()) << i;
  EXPECT_THAT(WhyRefused({.depth = 16, .cq_mode = CqMode::kRing, .cq_depth = 8}),
              HasSubstr("the depth of the ring is out of range. Choose 16 CQEs"));
  EXPECT_THAT(WhyRefused({.cq_mode = CqMode::kCollapsed, .cq_depth = 256}),
              HasSubstr("cq_depth is the depth of a ring"));
}

TEST_F(EndpointQueues, AreAlignedAsAskedFor) {
  for (const size_t alignment : {size_t{4096}, size_t{65536}, size_t{2} << 20}) {
    const EndpointConfig config{.cq_mode = CqMode::kRing, .receive_depth = 16, .queue_alignment = alignment};
    Link link(device_, config, config);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(link.a.ReceiveView().rq) % alignment, 0u);
    const Endpoint sends(device_, {.queue_alignment = alignment});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(sends.View().sq) % alignment, 0u);
    link.Connect();
    EXPECT_TRUE(link.Write(5).ok());
    EXPECT_EQ(QueueLine(sends), QueueLine(Endpoint(device_))) << "the room to align is not registered";
  }
  for (const size_t alignment : {size_t{64}, size_t{4097}, size_t{3} << 20, size_t{1} << 31}) {
    EXPECT_THAT(WhyRefused({.queue_alignment = alignment}),
                HasSubstr("the alignment of the queues is out of range"));
  }
  QueuePool pool(device_);
  EXPECT_THAT(WhyRefused({.pool = &pool, .queue_alignment = 65536}), HasSubstr("a pool packs its queues"));
}

TEST_F(EndpointQueues, HaveAReceiveViewForKernels) {
  const Endpoint endpoint(device_, {.depth = 16, .receive_depth = 5, .receive_scatter = 2});
  const device::ReceiveQueueView view = endpoint.ReceiveView();
  EXPECT_EQ(view.depth, 8) << "rounded up";
  EXPECT_EQ(view.stride, 32);
  EXPECT_EQ(view.rq + 8 * 32, endpoint.View().sq) << "the firmware expects this order";
  EXPECT_EQ(reinterpret_cast<uint8_t*>(view.dbrec) + 4, reinterpret_cast<uint8_t*>(endpoint.View().dbrec));
  EXPECT_EQ(*view.state, 0);
  EXPECT_EQ(view.first_cqe, 0);
  EXPECT_EQ(view.cq.depth, 8);
  for (uint32_t i = 0; i < 8 * 32; ++i) ASSERT_EQ(view.rq[i], 0);
  for (uint32_t i = 0; i < view.cq.depth; ++i) EXPECT_EQ(view.cq.cqe[64 * i + 63], 0xff);
  EXPECT_THAT(endpoint.Describe(), HasSubstr("receive queue: 8 receives of up to 2 buffers\n"));
}

TEST_F(EndpointQueues, StartTheSendQueueAtAWqebb) {
  for (const auto& [scatter, depth] : {std::pair{1u, 4u}, {2u, 2u}, {3u, 1u}, {4u, 1u}, {32u, 1u}}) {
    const Endpoint endpoint(device_, {.receive_depth = 1, .receive_scatter = scatter});
    EXPECT_EQ(endpoint.ReceiveView().depth, depth);
    EXPECT_EQ(endpoint.ReceiveView().stride, 16 * std::bit_ceil(scatter));
  }
}

TEST_F(EndpointQueues, NeverHaveARingOfOneCqe) {
  Link link(device_, {.depth = 1, .cq_mode = CqMode::kRing}, {.receive_depth = 1, .receive_scatter = 4});
  EXPECT_EQ(link.a.View().depth, 1);
  EXPECT_EQ(link.a.CompletionView().depth, 2);
  EXPECT_EQ(link.b.ReceiveView().depth, 1);
  EXPECT_EQ(link.b.ReceiveView().cq.depth, 2);
  link.Connect();
  EXPECT_TRUE(link.Write(9).ok());
  device::ReceiveQueue<Cpu> receives(link.b.ReceiveView());
  Queue sends(link.a.View());
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(receives.Post(link.target.Local(0)).ok());
    receives.Submit();
    ASSERT_TRUE(sends.Post(device::SendImm(link.source.Local(0), mlx5::Be32{i}), Within()).status.ok());
    const device::Received received = receives.Poll(Within());
    ASSERT_TRUE(received.status.ok());
    EXPECT_EQ(received.imm.raw, i);
  }
}

TEST_F(EndpointQueues, HaveNoReceiveViewWithoutReceives) {
  const Endpoint endpoint(device_);
  EXPECT_THAT(endpoint.Describe(), HasSubstr("receive queue: none\n"));
  try {
    endpoint.ReceiveView();
    FAIL() << "viewed a receive queue that does not exist";
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "Cannot view the receive queue of QP " + std::to_string(endpoint.qpn()) +
                                ": it has none. Create the endpoint with a receive_depth.");
  }
}

TEST_F(EndpointQueues, RejectReceivesOutOfRange) {
  EXPECT_THAT(WhyRefused({.depth = 32769}), HasSubstr("Cannot create a send queue of 32769 entries"));
  EXPECT_THAT(WhyRefused({.receive_depth = 32769}),
              HasSubstr("Cannot create a receive queue of 32769 entries"));
  EXPECT_THROW(Endpoint(device_, {.receive_depth = 1, .receive_scatter = 0}), Error);
  try {
    const Endpoint endpoint(device_, {.receive_depth = 1, .receive_scatter = 33});
    FAIL() << "accepted 33 buffers";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("the number of buffers of a receive is out of range. Choose 1 to 32."));
  }
}

TEST_F(EndpointQueues, DeliverMessagesRoundAfterRound) {
  Link link(device_, {.depth = 8}, {.receive_depth = 8, .receive_scatter = 2});
  link.Connect();
  Queue sends(link.a.View());
  device::ReceiveQueue<Cpu> receives(link.b.ReceiveView());
  for (uint32_t i = 0; i < 100; ++i) {
    // One of the two scatter entries of the stride: the other must not be used.
    ASSERT_TRUE(receives.Post(link.target.Local(i % 8)).ok());
    receives.Submit();
    link.source[0] = ++link.written;
    const bool is_write = i % 2 == 1;
    const device::Posted posted =
        is_write ? sends.Post(device::WriteImm(link.target.Remote(9), link.source.Local(0), mlx5::Be32{i}),
                              Within())
                 : sends.Post(device::SendImm(link.source.Local(0), mlx5::Be32{i}), Within());
    ASSERT_TRUE(posted.status.ok());
    const device::Received received = receives.Poll(Within());
    ASSERT_TRUE(received.status.ok());
    EXPECT_EQ(received.index, i);
    EXPECT_EQ(received.imm.raw, i);
    EXPECT_EQ(received.is_write, is_write);
    EXPECT_EQ(link.target[is_write ? 9 : i % 8], link.written);
  }
  EXPECT_TRUE(sends.Flush(Within()).ok());
}

TEST_F(EndpointQueues, SendAndReceiveOnBothSidesAtOnce) {
  const EndpointConfig config{.depth = 8, .cq_mode = CqMode::kRing, .receive_depth = 8};
  Link link(device_, config, config);
  link.Connect();
  Queue sends[] = {Queue(link.a.View()), Queue(link.b.View())};
  device::ReceiveQueue<Cpu> receives[] = {device::ReceiveQueue<Cpu>(link.a.ReceiveView()),
                                          device::ReceiveQueue<Cpu>(link.b.ReceiveView())};
  for (uint32_t i = 0; i < 50; ++i) {
    for (int side : {0, 1}) {
      ASSERT_TRUE(receives[side].Post(link.target.Local(side)).ok());
      receives[side].Submit();
    }
    for (int side : {0, 1}) {
      link.source[side] = 2 * i + side;
      ASSERT_TRUE(sends[side].Post(device::Send(link.source.Local(side)), Within()).status.ok());
    }
    for (int side : {0, 1}) {
      ASSERT_TRUE(receives[1 - side].Poll(Within()).status.ok());
      EXPECT_EQ(link.target[1 - side], 2 * i + side);
      ASSERT_TRUE(sends[side].Flush(Within()).ok());
    }
  }
}

TEST_F(EndpointQueues, SinkTheResultsOfAtomics) {
  Link link(device_);
  link.Connect();
  link.target[0] = 40;
  Queue queue(link.a.View());
  const device::Posted posted = queue.Post(device::FetchAdd<uint64_t>(link.target.Remote(0), 2), Within());
  ASSERT_TRUE(posted.status.ok());
  EXPECT_TRUE(queue.Wait(posted.ticket, Within()).ok());
  EXPECT_EQ(link.target[0], 42);
  EXPECT_EQ(link.a.View().control->sink, 40);
}

TEST_F(EndpointQueues, LimitTheSinksKeyToTheSink) {
  Link link(device_);
  link.Connect();
  const device::QueueView view = link.a.View();
  const device::LocalMemory tail{reinterpret_cast<uint64_t>(&view.control->tail), 8,
                                 mlx5::Be32{view.sink_lkey_be}};
  Queue queue(view);
  const device::Posted posted = queue.Post(device::Read(link.target.Remote(0), tail), Within());
  ASSERT_TRUE(posted.status.ok());
  EXPECT_EQ(queue.Wait(posted.ticket, Within()).syndrome,
            static_cast<uint8_t>(mlx5::Syndrome::kLocalProtection));
}

TEST_F(EndpointQueues, PutAllowedRegionsWhereKernelsReachThem) {
  Link link(device_, {.receive_depth = 4});
  EXPECT_EQ(link.a.View().control->regions, nullptr);
  const MemoryView local[] = {link.source.region.View()}, remote[] = {link.target.region.View()};
  link.a.AllowRegions(local, remote);
  const device::RegionTable* const table = link.a.View().control->regions;
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(link.a.ReceiveView().regions, table);
  ASSERT_EQ(table->count, 2);
  EXPECT_EQ(table->regions[0].key_be, link.source.Local(0).lkey.raw);
  EXPECT_EQ(table->regions[1].key_be, link.target.Remote(0).rkey.raw);
  EXPECT_EQ(table->regions[1].rights, device::kWritable | device::kReadable | device::kAtomic);
}

TEST_F(EndpointQueues, WaitForAnotherQueueIfConfigured) {
  for (const CqMode mode : {CqMode::kCollapsed, CqMode::kRing}) {
    Link first(device_, {.cq_mode = mode}), second(device_, {.wait_on_cq = true});
    first.Connect();
    second.Connect();
    Queue queue(second.a.View());
    ASSERT_TRUE(queue.Post(device::WaitCq{first.a.send_cqn(), 3}, Within()).status.ok());
    second.source[0] = 7;
    const device::Posted posted =
        queue.Post(device::Write(second.target.Remote(0), second.source.Local(0)), Within());
    ASSERT_TRUE(posted.status.ok());
    ASSERT_TRUE(first.Write(2).ok());
    EXPECT_EQ(queue.Test(posted.ticket).code, Code::kPending);
    ASSERT_TRUE(first.Write(1).ok());
    EXPECT_TRUE(queue.Wait(posted.ticket, Within()).ok());
    EXPECT_EQ(second.target[0], 7);
  }
}

TEST_F(EndpointQueues, RejectWaitingIfNotConfigured) {
  Link link(device_);
  link.Connect();
  Queue queue(link.a.View());
  const device::Posted posted = queue.Post(device::WaitCq{link.b.send_cqn(), 1}, Within());
  ASSERT_TRUE(posted.status.ok());
  EXPECT_EQ(queue.Wait(posted.ticket, Within()).syndrome,
            static_cast<uint8_t>(mlx5::Syndrome::kLocalQpOperation));
}

TEST_F(EndpointQueues, NeedSystemScopeReleasesInHostMemory) {
  EXPECT_EQ(Endpoint(device_).ReleaseScope(), arch::Scope::kSystem);
}

}  // namespace
}  // namespace warpverbs::host
