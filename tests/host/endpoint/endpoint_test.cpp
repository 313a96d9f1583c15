#include "warpverbs/host/endpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class EndpointTest : public testing::Test {
 protected:
  Device device_;
};

TEST_F(EndpointTest, StartsInReset) {
  const Endpoint endpoint(device_);
  EXPECT_EQ(endpoint.State(), mlx5::QpState::kReset);
}

TEST_F(EndpointTest, ConnectsToReadyToSend) {
  Endpoint a(device_), b(device_);
  ASSERT_NE(a.qpn(), b.qpn());
  a.Connect(b.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(b.State(), mlx5::QpState::kReset);
  b.Connect(a.Info());
  EXPECT_EQ(b.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, ConnectsThroughText) {
  Endpoint a(device_), b(device_);
  a.Connect(EndpointInfo::Parse(b.Info().Serialize()));
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, ConnectsWithEveryOptionAtItsLimit) {
  EndpointConfig config;
  config.remote_read = config.remote_write = config.remote_atomic = false;
  config.path = {.traffic_class = 255, .service_level = 7, .hop_limit = 255, .max_mtu = mlx5::Mtu::k256};
  config.retry = {.ack_timeout = 31, .retry_count = 7, .rnr_retry = 7, .min_rnr_timer = 31};
  Endpoint a(device_, config), b(device_, config);
  a.Connect(b.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, ConnectsOnce) {
  Endpoint a(device_), b(device_);
  a.Connect(b.Info());
  try {
    a.Connect(b.Info());
    FAIL() << "connected twice";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("it was connected before. Call Reset() on both sides first, and"));
  }
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, RejectsUnreachablePeers) {
  Endpoint a(device_), b(device_);
  EXPECT_THROW(a.Connect(EndpointInfo{}), Error);
  EndpointInfo other_link = b.Info();
  other_link.link_layer = LinkLayer::kInfiniBand;
  EXPECT_THROW(a.Connect(other_link), Error);
  EndpointInfo other_type = b.Info();
  other_type.gid_type = GidType::kRoceV1;
  EXPECT_THROW(a.Connect(other_type), Error);
  EXPECT_EQ(a.State(), mlx5::QpState::kReset) << "a rejected peer leaves the endpoint unchanged";
  a.Connect(b.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, RoundsTheDepthUp) {
  for (const auto& [asked, depth] : {std::pair{1u, 1u}, {3u, 4u}, {1000u, 1024u}, {32768u, 32768u}}) {
    EXPECT_EQ(Endpoint(device_, {.depth = asked}).View().depth, depth);
  }
}

TEST_F(EndpointTest, RejectsOptionsOutOfRange) {
  EXPECT_THROW(Endpoint(device_, {.depth = 0}), Error);
  EXPECT_THROW(Endpoint(device_, {.depth = 32769}), Error);
  EXPECT_THROW(Endpoint(device_, {.port = 9}), Error);
  EXPECT_THROW(Endpoint(device_, {.gid_index = 12345}), Error);
  EXPECT_THROW(Endpoint(device_, {.path = {.service_level = 8}}), Error);
  EXPECT_THROW(Endpoint(device_, {.path = {.max_mtu = mlx5::Mtu{0}}}), Error);
  EXPECT_THROW(Endpoint(device_, {.path = {.max_mtu = mlx5::Mtu{6}}}), Error);
  EXPECT_THROW(Endpoint(device_, {.retry = {.ack_timeout = 32}}), Error);
  EXPECT_THROW(Endpoint(device_, {.retry = {.retry_count = 8}}), Error);
  EXPECT_THROW(Endpoint(device_, {.retry = {.rnr_retry = 8}}), Error);
  EXPECT_THROW(Endpoint(device_, {.retry = {.min_rnr_timer = 32}}), Error);
  EXPECT_THROW(Endpoint(device_, {.pkey_index = 1}), Error) << "Ethernet has only one";
}

TEST_F(EndpointTest, RejectsUdpSourcePortsThatTheDeviceLacks) {
  const Capabilities& can = device_.capabilities();
  const uint16_t below = can.min_udp_source_port - 1;
  try {
    Endpoint(device_, {.path = {.udp_source_port = below}});
    FAIL() << "accepted UDP source port " << below;
  } catch (const Error& error) {
    EXPECT_EQ(error.what(), "Cannot create an endpoint on " + device_.name() +
                                ": the UDP source port is out of range. Choose " +
                                std::to_string(can.min_udp_source_port) + " to " +
                                std::to_string(can.max_udp_source_port) +
                                ", or 0 to derive it from the QP numbers.");
  }
  EXPECT_THROW(Endpoint(device_, {.path = {.udp_source_port = 1}}), Error);
  for (const uint16_t port : {can.min_udp_source_port, can.max_udp_source_port}) {
    Endpoint a(device_, {.path = {.udp_source_port = port}}), b(device_);
    a.Connect(b.Info());
    EXPECT_THAT(a.Describe(), HasSubstr("UDP source port " + std::to_string(port) + " (as asked)"));
  }
}

TEST_F(EndpointTest, ChoosesAGidThatMatchesThePeer) {
  // softhca's ports have a link-local and an IPv4 address, each as RoCE v1 and v2.
  const Gid ipv4 = Endpoint(device_).Info().gid;
  ASSERT_TRUE(IsIpv4Mapped(ipv4));
  const Gid link_local{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  Endpoint near(device_, {.peer_gid = link_local}), far(device_, {.peer_gid = ipv4});
  EXPECT_TRUE(IsLinkLocal(near.Info().gid));
  EXPECT_EQ(near.Info().gid_type, GidType::kRoceV2);
  EXPECT_THAT(near.Describe(), HasSubstr(" (the best for the peer's fe80::9, with "));
  EXPECT_EQ(far.Info().gid, ipv4);
  EXPECT_THAT(far.Describe(), HasSubstr(", with 32 of 32 bits in common), pkey index 0\n"));
  const uint32_t first = device_.Gids(device_.ActivePort()).at(0).index;
  const Endpoint named(device_, {.gid_index = static_cast<int>(first), .peer_gid = ipv4});
  EXPECT_THAT(named.Describe(), HasSubstr("GID " + std::to_string(first) + " (as asked)"));
}

TEST_F(EndpointTest, UsesLinkLocalAddressesIfThePeerDoes) {
  const Gid link_local{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}};
  Endpoint a(device_, {.peer_gid = link_local});
  Endpoint b(device_, {.peer_gid = a.Info().gid});
  a.Connect(b.Info());
  b.Connect(a.Info());
  EXPECT_EQ(a.State(), mlx5::QpState::kRts);
}

TEST_F(EndpointTest, DescribesItsRetries) {
  EXPECT_THAT(Endpoint(device_).Describe(),
              HasSubstr("retries: 7, each after 1073.74 ms without an ACK (ack timeout 18); for a peer "
                        "without a receive forever (timer 12)\n"));
  EXPECT_THAT(Endpoint(device_, {.retry = {.ack_timeout = 0, .rnr_retry = 3}}).Describe(),
              HasSubstr("retries: none, waits for an ACK forever (ack timeout 0); for a peer without a "
                        "receive 3 (timer 12)\n"));
}

TEST_F(EndpointTest, HasAViewForKernels) {
  const Endpoint endpoint(device_, {.depth = 16});
  const device::QueueView view = endpoint.View();
  EXPECT_EQ(view.qpn_be, mlx5::ToBe32(endpoint.qpn() << 8).raw);
  EXPECT_NE(view.doorbell, nullptr);
  EXPECT_EQ(*view.dbrec, 0);
  EXPECT_EQ(view.control->tail, 0);
  EXPECT_EQ(view.control->ready, 0);
  EXPECT_EQ(view.control->error, 0);
  EXPECT_EQ(*view.control->host_error, 0);
  EXPECT_EQ(view.control->ring, nullptr);
  EXPECT_EQ(view.control->regions, nullptr) << "a checked build allows all memory";
  EXPECT_EQ(view.cqe[63], 0xff) << "no completion yet";
  EXPECT_EQ(view.max_message, 1U << 30);
  EXPECT_EQ(view.flags & ~device::kWriteCombining, device::kNeedsSystemScope)
      << "the queue is in host memory";
}

TEST_F(EndpointTest, TellsCpuPostersWhetherTheirRegisterCombinesWrites) {
  DoorbellThread thread;
  const Endpoint direct(device_),
      proxied(device_, {.doorbell = DoorbellMode::kHostProxy, .doorbell_thread = &thread});
  const bool combines = direct.Describe().find("BlueFlame") != std::string::npos;
  EXPECT_EQ((direct.View().flags & device::kWriteCombining) != 0, combines) << direct.Describe();
  EXPECT_EQ(proxied.View().flags & device::kWriteCombining, 0) << "its doorbell is a word of this process";
}

TEST_F(EndpointTest, TellsPostersWhetherTheyContend) {
  const Endpoint contended(device_, {.contended = true}), other(device_);
  EXPECT_NE(contended.View().flags & device::kContended, 0);
  EXPECT_EQ(other.View().flags & device::kContended, 0);
  EXPECT_THAT(contended.Describe(), HasSubstr("128 WQEBBs (128 requested), for contended posters\n"));
}

TEST_F(EndpointTest, DumpsAfterReadsOnRequest) {
  EXPECT_EQ(Endpoint(device_, {.dump_after_read = true}).View().flags & ~device::kWriteCombining,
            device::kDumpAfterRead | device::kNeedsSystemScope);
}

TEST_F(EndpointTest, HasAnInvalidCqeForEveryWqebbInRingMode) {
  const Endpoint endpoint(device_, {.depth = 16, .cq_mode = CqMode::kRing});
  const device::CqView cq = endpoint.CompletionView();
  EXPECT_EQ(cq.depth, 16);
  EXPECT_EQ(*cq.dbrec, 0);
  for (uint32_t i = 0; i < cq.depth; ++i) EXPECT_EQ(cq.cqe[64 * i + 63], 0xff);
}

TEST_F(EndpointTest, LetsPostersLookAtItsRing) {
  const Endpoint endpoint(device_, {.depth = 16, .cq_mode = CqMode::kRing});
  const device::QueueView view = endpoint.View();
  EXPECT_EQ(view.flags & ~device::kWriteCombining, device::kNeedsSystemScope);
  EXPECT_EQ(view.cqe, endpoint.CompletionView().cqe);
  EXPECT_EQ(view.cq_depth, 16);
  EXPECT_EQ(view.control->ring, nullptr);
  EXPECT_EQ(view.control->cursor, 0);
}

TEST_F(EndpointTest, HasNoRingInCollapsedMode) {
  const Endpoint endpoint(device_, {.cq_mode = CqMode::kCollapsed});
  EXPECT_THROW(endpoint.CompletionView(), Error);
  EXPECT_EQ(endpoint.View().cq_depth, 1);
  EXPECT_THAT(endpoint.Describe(), HasSubstr("collapsed into one CQE"));
}

TEST_F(EndpointTest, DescribesItsChoices) {
  Endpoint a(device_, {.depth = 100}), b(device_, {.path = {.max_mtu = mlx5::Mtu::k1024}});
  EXPECT_THAT(a.Describe(),
              AllOf(HasSubstr("QP " + std::to_string(a.qpn()) + " on " + device_.name()),
                    HasSubstr("port 1, Ethernet (the first active port)"), HasSubstr("RoCE v2"),
                    HasSubstr("128 WQEBBs (100 requested)"), HasSubstr("a ring as deep as the send queue"),
                    HasSubstr("doorbell: "), HasSubstr("path: not connected")));
  a.Connect(b.Info());
  EXPECT_THAT(a.Describe(), AllOf(HasSubstr("path: to QP " + std::to_string(b.qpn())), HasSubstr("MTU 1024"),
                                  HasSubstr("(from the QP numbers)"), HasSubstr("hop limit 64")));
}

TEST_F(EndpointTest, ComesAndGoesAHundredTimes) {
  // A leaked queue pair would keep its completion queue and its umem busy.
  for (int i = 0; i < 100; ++i) {
    const CqMode mode = i % 2 == 0 ? CqMode::kCollapsed : CqMode::kRing;
    Endpoint a(device_, {.depth = 64, .cq_mode = mode}), b(device_, {.depth = 64, .cq_mode = mode});
    a.Connect(b.Info());
    b.Connect(a.Info());
    ASSERT_EQ(a.State(), mlx5::QpState::kRts);
  }
}

}  // namespace
}  // namespace warpverbs::host
