// The firmware's queue pair context has the configured values, field by field.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/mlx5/commands.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace {

mlx5dv_devx_obj* newest_object = nullptr;  // an endpoint creates its queue pair last

}  // namespace

/// Takes precedence over libmlx5's function and keeps the object, which an endpoint does not expose.
extern "C" mlx5dv_devx_obj* mlx5dv_devx_obj_create(ibv_context* context, const void* in, size_t in_bytes,
                                                   void* out, size_t out_bytes) {
  static auto* const own =
      reinterpret_cast<decltype(&mlx5dv_devx_obj_create)>(dlsym(RTLD_NEXT, "mlx5dv_devx_obj_create"));
  return newest_object = own(context, in, in_bytes, out, out_bytes);
}

namespace warpverbs::host {
namespace {

namespace qpc = mlx5::qpc;
namespace ads = mlx5::ads;

/// An endpoint whose queue pair context can be queried.
class InspectedEndpoint : public Endpoint {
 public:
  using Endpoint::Endpoint;

  void Ask() {
    mlx5::Mailbox<mlx5::kCommandHeaderBytes> in;
    in.Set(mlx5::command_in::kOpcode, mlx5::CommandOpcode::kQueryQp)
        .Set(mlx5::command_in::kObjectNumber, qpn());
    ASSERT_EQ(mlx5dv_devx_obj_query(object_, in.data(), in.size(), answer_.data(), answer_.size()), 0);
  }

  template <class T>
  T Of(mlx5::Field<T> field) const {
    return answer_.Get(field.At(mlx5::query_qp_out::kQpc));
  }
  template <class T>
  T OfPath(mlx5::Field<T> field) const {
    return Of(field.At(qpc::kPrimaryAddressPath));
  }
  Gid PeerGid() const {
    Gid gid;
    constexpr uint32_t kBit = mlx5::query_qp_out::kQpc + qpc::kPrimaryAddressPath + ads::kRgidRip.bit;
    std::memcpy(gid.raw.data(), reinterpret_cast<const uint8_t*>(answer_.data()) + kBit / 8, gid.raw.size());
    return gid;
  }

 private:
  mlx5dv_devx_obj* object_ = newest_object;
  mlx5::Mailbox<mlx5::query_qp_out::kBytes> answer_;
};

/// A connection with every option different from its default, on the last of two ports.
class Session : public testing::Test {
 protected:
  static constexpr uint8_t kPort = 2;

  Session() : is_ethernet_(device_.ActivePort(kPort).link_layer == LinkLayer::kEthernet) {
    peer_ = Endpoint(device_, {.port = kPort, .psn = 0x654321}).Info();
    peer_.max_reads_out = 2;
    peer_.max_reads_in = 4;
  }

  EndpointConfig Config() const {
    const uint16_t last_port = device_.capabilities().max_udp_source_port;
    return {.port = kPort,
            .gid_index =
                is_ethernet_ ? static_cast<int>(device_.Gids(device_.ActivePort(kPort)).back().index) : -1,
            .pkey_index = static_cast<uint16_t>(is_ethernet_ ? 0 : 1),
            .psn = 0x123456,
            .path = {.traffic_class = 0xa8,
                     .service_level = 5,
                     .hop_limit = 33,
                     .max_mtu = mlx5::Mtu::k512,
                     .udp_source_port = last_port},
            .retry = {.ack_timeout = 21, .retry_count = 5, .rnr_retry = 3, .min_rnr_timer = 9}};
  }

  /// Returns the MAC address that is part of the port's link-local address.
  std::array<uint8_t, 6> MacOf(uint8_t port) const {
    for (const GidEntry& entry : device_.Gids(device_.ActivePort(port))) {
      const auto& raw = entry.gid.raw;
      if (IsLinkLocal(entry.gid))
        return {static_cast<uint8_t>(raw[8] ^ 2), raw[9], raw[10], raw[13], raw[14], raw[15]};
    }
    ADD_FAILURE() << "the port has no link-local address";
    return {};
  }

  Device device_;
  bool is_ethernet_;
  EndpointInfo peer_;
};

TEST_F(Session, HasTheConfiguredRetriesAndCounts) {
  InspectedEndpoint a(device_, Config());
  a.Connect(peer_);
  a.Ask();
  EXPECT_EQ(a.Of(qpc::kState), mlx5::QpState::kRts);
  EXPECT_EQ(a.Of(qpc::kPmState), mlx5::PathMigration::kMigrated);
  EXPECT_EQ(a.Of(qpc::kRemoteQpn), peer_.qpn);
  EXPECT_EQ(a.Of(qpc::kNextSendPsn), 0x123456u);
  EXPECT_EQ(a.Of(qpc::kNextRcvPsn), 0x654321u);
  EXPECT_EQ(1u << a.Of(qpc::kLogSraMax), 4u) << "limit that the peer serves";
  EXPECT_EQ(1u << a.Of(qpc::kLogRraMax), 2u) << "limit that the peer has outstanding";
  EXPECT_EQ(a.Of(qpc::kLogMsgMax), device_.capabilities().log_max_message);
  EXPECT_EQ(a.Of(qpc::kRetryCount), 5u);
  EXPECT_EQ(a.Of(qpc::kRnrRetry), 3u);
  EXPECT_EQ(a.Of(qpc::kMinRnrNak), 9u);
  EXPECT_EQ(a.OfPath(ads::kAckTimeout), 21u);
}

TEST_F(Session, HasTheConfiguredPath) {
  InspectedEndpoint a(device_, Config());
  if (!is_ethernet_) peer_.gid.raw[7] ^= 1;  // another subnet, so that the packets carry GIDs
  a.Connect(peer_);
  a.Ask();
  EXPECT_EQ(a.Of(qpc::kMtu), mlx5::Mtu::k512);
  EXPECT_EQ(a.OfPath(ads::kVhcaPortNum), kPort);
  EXPECT_EQ(a.OfPath(ads::kHopLimit), 33u);
  EXPECT_EQ(a.PeerGid(), peer_.gid);
  if (is_ethernet_) {
    EXPECT_NE(Config().gid_index, 0);
    EXPECT_EQ(a.OfPath(ads::kSrcAddrIndex), static_cast<uint32_t>(Config().gid_index));
    EXPECT_EQ(a.OfPath(ads::kDscp), 0xa8u >> 2);
    EXPECT_EQ(a.OfPath(ads::kEthPrio), 5u);
    EXPECT_EQ(a.OfPath(ads::kUdpSport), device_.capabilities().max_udp_source_port);
    const auto mac = MacOf(kPort);
    EXPECT_EQ(a.OfPath(ads::kRmac4732), mac[0] << 8u | mac[1]);
    EXPECT_EQ(a.OfPath(ads::kRmac310), uint32_t{mac[2]} << 24 | mac[3] << 16 | mac[4] << 8 | mac[5]);
  } else {
    EXPECT_EQ(a.OfPath(ads::kRlid), peer_.lid);
    EXPECT_NE(peer_.lid, 0);
    EXPECT_TRUE(a.OfPath(ads::kGrh));
    EXPECT_EQ(a.OfPath(ads::kTclass), 0xa8u);
    EXPECT_EQ(a.OfPath(ads::kSl), 5u);
    EXPECT_EQ(a.OfPath(ads::kPkeyIndex), 1u);
  }
}

TEST_F(Session, CarriesNoGidsWithinAnInfiniBandSubnet) {
  if (is_ethernet_) GTEST_SKIP() << "on Ethernet there is always one";
  InspectedEndpoint a(device_, Config());
  a.Connect(peer_);
  a.Ask();
  EXPECT_FALSE(a.OfPath(ads::kGrh));
}

TEST_F(Session, GrantsThePeerTheConfiguredAccess) {
  for (const uint32_t rights : {0u, 1u, 2u, 4u, 7u}) {
    EndpointConfig config = Config();
    config.remote_read = (rights & 1) != 0;
    config.remote_write = (rights & 2) != 0;
    config.remote_atomic = (rights & 4) != 0;
    InspectedEndpoint a(device_, config);
    a.Connect(peer_);
    a.Ask();
    EXPECT_EQ(a.Of(qpc::kRre), config.remote_read) << rights;
    EXPECT_EQ(a.Of(qpc::kRwe), config.remote_write) << rights;
    EXPECT_EQ(a.Of(qpc::kRae), config.remote_atomic) << rights;
    EXPECT_EQ(a.Of(qpc::kAtomicMode),
              config.remote_atomic ? mlx5::AtomicMode::kUpTo8 : mlx5::AtomicMode::kNone)
        << rights;
  }
}

TEST_F(Session, HasTheConfiguredQueues) {
  EndpointConfig config = Config();
  config.depth = 32;
  config.receive_depth = 16;
  config.receive_scatter = 4;
  config.wait_on_cq = true;
  InspectedEndpoint a(device_, config);
  a.Ask();
  EXPECT_EQ(a.Of(qpc::kSt), mlx5::ServiceType::kRc);
  EXPECT_EQ(a.Of(qpc::kPd), device_.pdn());
  EXPECT_EQ(a.Of(qpc::kCqnSnd), a.send_cqn());
  EXPECT_EQ(1u << a.Of(qpc::kLogSqSize), 32u);
  EXPECT_EQ(1u << a.Of(qpc::kLogRqSize), 16u);
  EXPECT_EQ(mlx5::kSegmentBytes << a.Of(qpc::kLogRqStride), 64u);
  EXPECT_TRUE(a.Of(qpc::kCdMaster));
}

}  // namespace
}  // namespace warpverbs::host
