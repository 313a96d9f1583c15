#include <gtest/gtest.h>

#include <optional>

#include "core/connected_pair.hpp"
#include "core/wqe_reader.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;
using mlx5::ToBe32;
using mlx5::WqeOpcode;

/// WQEs of services other than reliable connections.
class ServiceTest : public testing::Test {
 protected:
  Syndrome Read(const WqeBuilder& builder) {
    user.emplace(hca, pd, QpOptions{.service = service});
    for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      QpChange change = ToRtr(hca.config(), user->qpn);
      change.access = kAllAccess;
      change.pkey_index = 0;
      change.port = 1;
      change.qkey = kQkey;
      change.send_psn = 0;
      hca.ModifyQp(user->qpn, state, change);
    }
    user->Post(builder);
    return wqe.Read(user->qp(), 0, static_cast<uint32_t>(builder.Build(0, 0).size() / mlx5::kWqebbBytes));
  }
  static mlx5::DatagramSegment Address() {
    mlx5::DatagramSegment to{};
    to.qkey = ToBe32(0x0badcafe);
    to.dest_qpn = ToBe32(mlx5::kExtendedAddress | 0x123456);
    to.rate_sl = 5 << 1;
    to.lid_udp_sport = mlx5::ToBe16(0xc0de);
    for (uint8_t i = 0; i < 6; ++i) to.mac[i] = i;
    to.traffic_class = 0x68;
    to.hop_limit = 7;
    to.grh_gid_flow = ToBe32(0xabcde);
    for (uint8_t i = 0; i < 16; ++i) to.gid[i] = static_cast<uint8_t>(0xf0 + i);
    return to;
  }

  using QpState = mlx5::QpState;
  static constexpr uint32_t kQkey = 0x11111111;

  mlx5::ServiceType service = mlx5::ServiceType::kUd;
  Hca hca{TestDevice()};
  uint32_t pd = hca.AllocPd();
  Region local{hca, pd, 16384};
  std::optional<QpUser> user;
  SendWqe wqe;
};

TEST_F(ServiceTest, ReadsTheDestinationOfADatagram) {
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSend).To(Address()).Data(local.Address(), 100, local.key)),
            Syndrome::kNone);
  const Destination& to = wqe.request().destination;
  EXPECT_EQ(to.qpn, 0x123456u);
  EXPECT_EQ(to.qkey, 0x0badcafeu);
  EXPECT_TRUE(to.path.grh);
  EXPECT_EQ(to.path.remote_gid[15], 0xff);
  EXPECT_EQ(to.path.remote_mac[5], 5);
  EXPECT_EQ(to.path.udp_source_port, 0xc0de);
  EXPECT_EQ(to.path.traffic_class, 0x68);
  EXPECT_EQ(to.path.hop_limit, 7);
  EXPECT_EQ(to.path.flow_label, 0xabcdeu);
  EXPECT_EQ(to.path.service_level, 5);
  EXPECT_EQ(to.path.local_gid_index, 0);
  EXPECT_EQ(wqe.request().bytes, 100u);
}

TEST_F(ServiceTest, ReplacesTheQkeyOfADatagramOnRequest) {
  mlx5::DatagramSegment to = Address();
  to.qkey = ToBe32(mlx5::kOwnQkey | 1);
  ASSERT_EQ(Read(WqeBuilder(WqeOpcode::kSendImm).To(to)), Syndrome::kNone);
  EXPECT_EQ(wqe.request().destination.qkey, kQkey);
}

TEST_F(ServiceTest, RefusesAnAddressThatTheDeviceCannotUse) {
  mlx5::DatagramSegment compact = Address(), stranger = Address();
  compact.dest_qpn = ToBe32(0x123456);
  stranger.grh_gid_flow = ToBe32(1 << 20);  // the device has only GID 0
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend).To(compact)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend).To(stranger)), Syndrome::kLocalQpOperation);
  EXPECT_EQ(Read(WqeBuilder(WqeOpcode::kSend)), Syndrome::kLocalQpOperation);
}

TEST_F(ServiceTest, RefusesADatagramLongerThanThePortsMtu) {
  const auto send = [&](uint32_t bytes) {
    return Read(WqeBuilder(WqeOpcode::kSend).To(Address()).Data(local.Address(), bytes, local.key));
  };
  EXPECT_EQ(send(4096), Syndrome::kNone);
  EXPECT_EQ(send(4097), Syndrome::kLocalLength);
}

TEST_F(ServiceTest, RefusesOperationsThatNeedAResponse) {
  const auto read = [&](mlx5::ServiceType of, WqeOpcode opcode) {
    service = of;
    WqeBuilder builder(opcode);
    if (of == mlx5::ServiceType::kUd) builder.To(Address());
    return Read(builder.Remote(local.Address(), local.key).Data(local.Address(), 8, local.key));
  };
  for (const auto opcode : {WqeOpcode::kRdmaRead, WqeOpcode::kAtomicCs, WqeOpcode::kAtomicMaskedFa}) {
    EXPECT_EQ(read(mlx5::ServiceType::kUc, opcode), Syndrome::kLocalQpOperation);
    EXPECT_EQ(read(mlx5::ServiceType::kUd, opcode), Syndrome::kLocalQpOperation);
  }
  EXPECT_EQ(read(mlx5::ServiceType::kUc, WqeOpcode::kRdmaWrite), Syndrome::kNone);
  EXPECT_EQ(read(mlx5::ServiceType::kUd, WqeOpcode::kRdmaWrite), Syndrome::kLocalQpOperation);
  EXPECT_EQ(read(mlx5::ServiceType::kUc, WqeOpcode::kNop), Syndrome::kNone);
}

TEST_F(ServiceTest, RefusesAWqeOfAQueuePairWithoutPort) {
  user.emplace(hca, pd, QpOptions{.service = service});
  user->Post(WqeBuilder(WqeOpcode::kSend).To(Address()));
  EXPECT_EQ(wqe.Read(user->qp(), 0, 1), Syndrome::kLocalQpOperation);
}

}  // namespace
}  // namespace softhca
