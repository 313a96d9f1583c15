#include "wire/message_link.hpp"

#include <gtest/gtest.h>

#include "core/packets.hpp"
#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::WqeOpcode;

Request EmptyWrite() {
  Request request;
  request.opcode = WqeOpcode::kRdmaWrite;
  return request;
}

class MessageLinkTest : public testing::Test {
 protected:
  static DeviceConfig InfiniBandDevice(uint16_t lid) {
    DeviceConfig device = TestDevice(static_cast<uint8_t>(lid));
    device.link = mlx5::PortType::kInfiniBand;
    device.ports[0].lid = lid;
    return device;
  }
  /// Connects a queue pair of each device and sends an empty write.
  static Response::Kind KindOfWrite(DeviceConfig first, DeviceConfig second, const QpChange& change = {}) {
    Hca near(std::move(first)), far(std::move(second));
    QpUser a(near, near.AllocPd()), b(far, far.AllocPd());
    a.Connect(b, change);
    b.Connect(a);
    return MessageLink({&near, &far}).Deliver(a.qp(), EmptyWrite()).kind;
  }
  static DeviceConfig Down(DeviceConfig device) {
    device.ports[0].up = false;
    return device;
  }
};

TEST_F(MessageLinkTest, FindsThePeerByItsGid) {
  EXPECT_EQ(KindOfWrite(TestDevice(1), TestDevice(2)), Response::Kind::kAcknowledged);
}

TEST_F(MessageLinkTest, FindsThePeerByItsLid) {
  EXPECT_EQ(KindOfWrite(InfiniBandDevice(1), InfiniBandDevice(2),
                        {.path = AddressPath{.grh = false, .remote_lid = 2}}),
            Response::Kind::kAcknowledged);
}

TEST_F(MessageLinkTest, NeedsTheLidEvenIfThePathNamesAGid) {
  const Gid second = InfiniBandDevice(2).ports[0].gids[0].gid;
  const auto path = [&](uint16_t lid) {
    return QpChange{.path = AddressPath{.grh = true, .remote_gid = second, .remote_lid = lid}};
  };
  EXPECT_EQ(KindOfWrite(InfiniBandDevice(1), InfiniBandDevice(2), path(2)), Response::Kind::kAcknowledged);
  EXPECT_EQ(KindOfWrite(InfiniBandDevice(1), InfiniBandDevice(2), path(3)), Response::Kind::kSilence);
}

TEST_F(MessageLinkTest, SeparatesPartitions) {
  EXPECT_EQ(KindOfWrite(InfiniBandDevice(1), InfiniBandDevice(2), {.pkey_index = 1}),
            Response::Kind::kSilence);
  EXPECT_EQ(KindOfWrite(TestDevice(1), TestDevice(2), {.pkey_index = 1}), Response::Kind::kAcknowledged)
      << "RoCE has one partition";
}

TEST(Partition, NeedsOneFullMemberAndAValidKey) {
  EXPECT_TRUE(SharePartition(0xffff, 0xffff));
  EXPECT_TRUE(SharePartition(0x8001, 0x0001));
  EXPECT_FALSE(SharePartition(0x0001, 0x0001));
  EXPECT_FALSE(SharePartition(0x8001, 0x8002));
  EXPECT_FALSE(SharePartition(0x8000, 0x8000));
  EXPECT_FALSE(SharePartition(0xffff, 0));
}

TEST_F(MessageLinkTest, DistinguishesQueuePairsOfEqualNumber) {
  Hca near(TestDevice(1)), far(TestDevice(2));
  QpUser a(near, near.AllocPd()), b(far, far.AllocPd());
  ASSERT_EQ(a.qpn, b.qpn);
  a.Connect(b);
  b.Connect(a);
  EXPECT_EQ(MessageLink({&near, &far}).Deliver(a.qp(), EmptyWrite()).kind, Response::Kind::kAcknowledged);
  EXPECT_EQ(b.qp().next_receive_psn, 1u);
  EXPECT_EQ(a.qp().next_receive_psn, 0u);
}

TEST_F(MessageLinkTest, GetsNoAnswerFromAnUnknownAddress) {
  Gid unknown{};
  unknown[0] = 0xfe;
  EXPECT_EQ(
      KindOfWrite(TestDevice(1), TestDevice(2), {.path = AddressPath{.grh = true, .remote_gid = unknown}}),
      Response::Kind::kSilence);
}

TEST_F(MessageLinkTest, PassesNothingThroughAPortThatIsDown) {
  EXPECT_EQ(KindOfWrite(Down(TestDevice(1)), TestDevice(2)), Response::Kind::kSilence);
  EXPECT_EQ(KindOfWrite(TestDevice(1), Down(TestDevice(2))), Response::Kind::kSilence);
}

TEST_F(MessageLinkTest, SeparatesRoceVersions) {
  DeviceConfig older = TestDevice(2);
  older.ports[0].gids[0].version = mlx5::RoceVersion::kV1;
  EXPECT_EQ(KindOfWrite(TestDevice(1), older), Response::Kind::kSilence);
  DeviceConfig both = TestDevice(1);
  both.ports[0].gids[0].version = mlx5::RoceVersion::kV1;
  EXPECT_EQ(KindOfWrite(both, older), Response::Kind::kAcknowledged);
}

TEST_F(MessageLinkTest, DeliversOnlyToTheAddressedPort) {
  DeviceConfig two_ports = TestDevice(2);
  two_ports.ports.push_back(TestDevice(3).ports[0]);
  Hca near(TestDevice(1)), far(two_ports);
  QpUser a(near, near.AllocPd()), b(far, far.AllocPd());
  AddressPath to_second_port{.grh = true};
  to_second_port.remote_gid = two_ports.ports[1].gids[0].gid;
  a.Connect(b, {.path = to_second_port});
  b.Connect(a);  // through its first port
  EXPECT_EQ(MessageLink({&near, &far}).Deliver(a.qp(), EmptyWrite()).kind, Response::Kind::kSilence);
}

TEST_F(MessageLinkTest, GetsNoAnswerFromAPeerConnectedElsewhere) {
  Hca near(TestDevice(1)), far(TestDevice(2));
  QpUser a(near, near.AllocPd()), b(far, far.AllocPd());
  a.Connect(b);
  b.Connect(b, {.remote_qpn = a.qpn});  // a's number, but on its own device
  EXPECT_EQ(MessageLink({&near, &far}).Deliver(a.qp(), EmptyWrite()).kind, Response::Kind::kSilence);
}

}  // namespace
}  // namespace softhca
