#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "core/error.hpp"
#include "wire/address_table.hpp"
#include "wire/media/abstract_name.hpp"
#include "wire/media/cable_medium.hpp"
#include "wire/media/loop_medium.hpp"
#include "wire/media/neighbour_medium.hpp"
#include "wire/media/switch_medium.hpp"
#include "wire/media/udp_medium.hpp"
#include "wire/test_frame.hpp"

namespace softhca {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

UdpAddress AddressOf(uint32_t port) { return {.gid = TestGid(port), .mac = TestMac(port)}; }

TEST(LoopMedium, ReturnsSentFramesInOrder) {
  LoopMedium loop;
  loop.Send(TestFrame(TestFlow(), "first"));
  loop.Send(TestFrame(TestFlow(), "second"));
  EXPECT_EQ(loop.NextNs(), 0u) << "no descriptor announces the frame";
  EXPECT_THAT(Receive(loop, 2), ElementsAre(TestFrame(TestFlow(), "first"), TestFrame(TestFlow(), "second")));
  EXPECT_EQ(loop.NextNs(), UINT64_MAX);
}

TEST(SwitchMedium, GivesEachFrameToTheFirstMediumThatTakesIt) {
  SwitchMedium both;
  auto mine = std::make_unique<LoopMedium>(), rest = std::make_unique<LoopMedium>();
  LoopMedium& first = *mine;
  LoopMedium& second = *rest;
  both.Add([](auto frame) { return DestinationMac(frame) == TestMac(1); }, std::move(mine));
  both.Add([](auto frame) { return EtherType(frame) == kEtherTypeIpv4; }, std::move(rest));
  Flow flow = TestFlow();
  both.Send(TestFrame(flow, "rest"));
  flow.destination_mac = TestMac(1);
  both.Send(TestFrame(flow, "mine"));
  flow = TestFlow();
  flow.version = mlx5::RoceVersion::kV1;
  both.Send(TestFrame(flow, "nobody's"));
  EXPECT_THAT(Receive(second, 1), ElementsAre(TestFrame(TestFlow(), "rest")));
  EXPECT_EQ(Receive(first, 1).size(), 1u);
  EXPECT_EQ(both.NextNs(), UINT64_MAX) << "nothing is left";
}

class UdpMediumTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && geteuid() != 0) GTEST_SKIP() << "raw sockets need root";
  }
};

TEST_P(UdpMediumTest, DeliversAFrameWithAllItsHeaders) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  from.Send(TestFrame(TestFlow()));
  from.Flush();
  const auto frames = Receive(to, 1);
  ASSERT_EQ(frames.size(), 1u);
  const auto frame = ParseFrame(frames[0]);
  ASSERT_TRUE(frame);
  EXPECT_TRUE(IsSealed(*frame));
  EXPECT_EQ(frame->flow.source, TestGid(1));
  EXPECT_EQ(frame->flow.destination, TestGid(2));
  EXPECT_EQ(frame->flow.traffic_class, 0x68);
  EXPECT_EQ(frame->flow.hop_limit, 33);
  EXPECT_EQ(frame->flow.source_port, 0xc123);
  const auto sent = TestFrame(TestFlow());
  EXPECT_TRUE(std::ranges::equal(frame->transport, ParseFrame(sent)->transport));
}

TEST_P(UdpMediumTest, DeliversFramesOfSeveralFlowsInOrder) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  constexpr size_t kCount = 200;
  for (size_t i = 0; i < kCount; ++i) {
    Flow flow = TestFlow();
    flow.source_port = static_cast<uint16_t>(0xc200 + i / 50);
    from.Send(TestFrame(flow, std::to_string(1000 + i)));
  }
  from.Flush();
  const auto frames = Receive(to, kCount);
  ASSERT_EQ(frames.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) {
    const auto frame = ParseFrame(frames[i]);
    EXPECT_EQ(frame->flow.source_port, 0xc200 + i / 50);
    const auto packet = Decode(frame->transport.first(frame->transport.size() - kIcrcBytes));
    EXPECT_EQ(std::string(packet->payload.begin(), packet->payload.end()), std::to_string(1000 + i));
  }
}

/// The kernel tells the number of dropped datagrams with the next one that it takes.
TEST_P(UdpMediumTest, CountsFramesForWhichTheSocketHasNoRoom) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  uint64_t lost = 0;
  to.ReportLosses([&](const char* reason, uint64_t frames) {
    EXPECT_STREQ(reason, "the receiver's queue is full");
    lost += frames;
  });
  const std::string text(4000, 'x');
  constexpr size_t kSent = 20'000;  // more than twice the buffer's 32 MiB
  for (size_t i = 0; i < kSent; ++i) from.Send(TestFrame(TestFlow(), text));
  from.Flush();
  size_t received = 0;
  const auto count = [&](std::span<const uint8_t>) { ++received; };
  while (to.Receive(64, count) != 0) continue;
  ASSERT_LT(received, kSent);
  from.Send(TestFrame(TestFlow(), text));
  from.Flush();
  received += Receive(to, 1).size();
  EXPECT_GT(lost, 0u);
  EXPECT_LE(received + lost, kSent + 1) << "the kernel may drop others before they reach the socket";
}

/// Opens a socket that occupies a port of an address.
Descriptor Take(const Gid& gid, uint16_t port) {
  Descriptor socket = OpenSocket(AF_INET, SOCK_DGRAM, 0);
  const SocketAddress address = ToSocketAddress(gid, port);
  EXPECT_EQ(bind(socket.get(), &address.any, address.bytes), 0);
  return socket;
}

TEST_P(UdpMediumTest, UsesTheStandardPortAndResealsWhenAPortIsTaken) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  const Descriptor other = Take(TestGid(1), 0xc123);
  from.Send(TestFrame(TestFlow()));
  from.Flush();
  const auto frames = Receive(to, 1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(ParseFrame(frames[0])->flow.source_port, kRoceUdpPort);
  EXPECT_TRUE(IsSealed(*ParseFrame(frames[0])));
}

TEST_P(UdpMediumTest, KeepsADamagedFrameDamagedFromAnyPort) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  const Descriptor other = Take(TestGid(1), 0xc123);
  Bytestream frame = TestFrame(TestFlow());
  frame[frame.size() - kIcrcBytes - 1] ^= 1;
  from.Send(frame);
  from.Flush();
  const auto frames = Receive(to, 1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_FALSE(IsSealed(*ParseFrame(frames[0])));
}

TEST_P(UdpMediumTest, UsesTheStandardPortWhenDescriptorsRunOut) {
  UdpMedium from({AddressOf(1)}, false), to({AddressOf(2)}, GetParam());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(0);
  close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_NO_THROW(from.Send(TestFrame(TestFlow())));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  from.Flush();
  const auto frames = Receive(to, 1);
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(ParseFrame(frames[0])->flow.source_port, kRoceUdpPort);
}

INSTANTIATE_TEST_SUITE_P(By, UdpMediumTest, testing::Values(false, true),
                         [](const auto& raw) { return raw.param ? "RawSockets" : "UdpSockets"; });

TEST(UdpMedium, NamesTheAddressThatIsTaken) {
  const UdpMedium first({AddressOf(1)}, false);
  try {
    const UdpMedium second({AddressOf(1)}, false);
    FAIL() << "both own the same address";
  } catch (const CommandError& error) {
    EXPECT_THAT(error.what(), HasSubstr("UDP port 4791 of 127.83.191.254"));
    EXPECT_THAT(error.what(), HasSubstr("another process"));
  }
}

/// Sends to a group that one of two other media has joined, and the sender itself.
void ExpectGroupFramesAtMembersOnly(Medium& from, Medium& member, Medium& other, const Flow& flow) {
  Gid another = flow.destination;
  another.back() += 100;
  from.SetGroups({flow.destination});
  member.SetGroups({flow.destination});
  other.SetGroups({flow.destination, another});
  other.SetGroups({another});
  from.Send(TestFrame(flow, "to members"));
  from.Flush();
  const auto frames = Receive(member, 1);
  ASSERT_EQ(frames.size(), 1u);
  const auto frame = ParseFrame(frames[0], LinkOf(flow));
  ASSERT_TRUE(frame);
  EXPECT_TRUE(IsSealed(*frame));
  EXPECT_EQ(frame->flow.destination, flow.destination);
  EXPECT_EQ(frame->flow.destination_mac, flow.destination_mac);
  EXPECT_EQ(frame->flow.hop_limit, flow.hop_limit);
  const auto none = [](std::span<const uint8_t>) { ADD_FAILURE() << "not a member, or the sender"; };
  EXPECT_EQ(other.Receive(64, none), 0u);
  from.Receive(64, none);
}

Flow GroupFlow(const Gid& group) {
  Flow flow = TestFlow();
  flow.destination = group;
  flow.destination_mac = GuessMac(group);
  return flow;
}

TEST_P(UdpMediumTest, CarriesFramesToTheMembersOfAGroup) {
  const auto next = [](uint32_t port) {
    using namespace address_block;
    return UdpAddress{.gid = Ipv4GidOf(kLast, 14, port), .mac = MacOf(kLast, 14, port)};
  };
  UdpMedium from({AddressOf(1)}, false), member({AddressOf(2), next(1)}, GetParam()), other({next(2)}, false);
  const Gid group{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 83, 7, 3};
  ExpectGroupFramesAtMembersOnly(from, member, other, GroupFlow(group));
  EXPECT_EQ(member.Receive(64, [](std::span<const uint8_t>) {}), 0u) << "once, for both addresses";
}

TEST(NeighbourMedium, CarriesFramesToTheMembersOfAGroup) {
  NeighbourMedium from({TestMac(1)}), member({TestMac(2), TestMac(3)}), other({TestMac(4)});
  Flow flow = GroupFlow({0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 83, 7, 3});
  flow.version = mlx5::RoceVersion::kV1;
  ExpectGroupFramesAtMembersOnly(from, member, other, flow);
}

/// Returns the flow to port 2 in a subnet of InfiniBand, without GRH.
Flow LocalFlow() {
  return {.local = LocalRoute{.source = TestLid(1), .destination = TestLid(2)}, .grh = false};
}

TEST(NeighbourMedium, CarriesFramesOfInfiniBandByLid) {
  constexpr mlx5::PortType kLink = mlx5::PortType::kInfiniBand;
  NeighbourMedium from({TestMac(1)}, kLink), to({TestMac(2)}, kLink);
  from.Send(TestFrame(LocalFlow()));
  EXPECT_THAT(Receive(to, 1), ElementsAre(TestFrame(LocalFlow())));
  std::string loss;
  from.ReportLosses([&](const char* reason, uint64_t) { loss = reason; });
  Flow nowhere = LocalFlow();
  nowhere.local->destination = TestLid(2) - 2;
  from.Send(TestFrame(nowhere));
  EXPECT_EQ(loss, "no process has its destination address");
}

TEST(NeighbourMedium, CarriesFramesOfInfiniBandToTheMembersOfAGroup) {
  constexpr mlx5::PortType kLink = mlx5::PortType::kInfiniBand;
  NeighbourMedium from({TestMac(1)}, kLink), member({TestMac(2), TestMac(3)}, kLink),
      other({TestMac(4)}, kLink);
  Flow flow = LocalFlow();
  flow.grh = true;
  flow.destination = {0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 83, 7, 3};
  flow.local->destination = 0xc003;
  ExpectGroupFramesAtMembersOnly(from, member, other, flow);
}

TEST(NeighbourMedium, CarriesRoceV1AndMoreThanAUnixSocketQueues) {
  NeighbourMedium from({TestMac(1)}), to({TestMac(2)});
  Flow flow = TestFlow();
  flow.version = mlx5::RoceVersion::kV1;
  constexpr size_t kCount = 1000;
  for (size_t i = 0; i < kCount; ++i) from.Send(TestFrame(flow, std::to_string(i)));
  const auto frames = Receive(to, kCount, [&] { from.Flush(); });
  ASSERT_EQ(frames.size(), kCount);
  for (size_t i = 0; i < kCount; ++i) EXPECT_EQ(frames[i], TestFrame(flow, std::to_string(i)));
}

TEST(NeighbourMedium, SlowReceiverDoesNotDelayOthers) {
  NeighbourMedium from({TestMac(1)});
  const NeighbourMedium stopped({TestMac(2)});
  NeighbourMedium other({TestMac(3)});
  Flow flow = TestFlow();
  for (int i = 0; i < 1000; ++i) from.Send(TestFrame(flow));
  ASSERT_TRUE(from.HasUnsent());
  EXPECT_TRUE(from.HasUnsentTo(TestMac(2)));
  EXPECT_FALSE(from.HasUnsentTo(TestMac(3)));
  flow.destination_mac = TestMac(3);
  from.Send(TestFrame(flow, "other"));
  EXPECT_THAT(Receive(other, 1), ElementsAre(TestFrame(flow, "other")));
}

TEST(NeighbourMedium, DropsFramesWithoutAReceiver) {
  NeighbourMedium from({TestMac(1)});
  from.Send(TestFrame(TestFlow()));
  NeighbourMedium to({TestMac(2)});
  from.Send(TestFrame(TestFlow(), "later"));
  EXPECT_THAT(Receive(to, 1), ElementsAre(TestFrame(TestFlow(), "later")));
}

TEST(NeighbourMedium, DropsFramesOfOtherUsers) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may send in the name of another user";
  NeighbourMedium to({TestMac(2)});
  std::string loss;
  to.ReportLosses([&](const char* reason, uint64_t) { loss = reason; });
  const Descriptor socket = OpenSocket(AF_UNIX, SOCK_DGRAM, 0);
  const std::string name = OwnName("02:53:48:05:ff:f2");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  Bytestream frame = TestFrame(TestFlow());
  iovec part{frame.data(), frame.size()};
  alignas(cmsghdr) std::array<uint8_t, CMSG_SPACE(sizeof(ucred))> control{};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_CREDENTIALS;
  header->cmsg_len = CMSG_LEN(sizeof(ucred));
  const ucred nobody{.pid = getpid(), .uid = 65534, .gid = 65534};
  std::memcpy(CMSG_DATA(header), &nobody, sizeof nobody);
  ASSERT_EQ(sendmsg(socket.get(), &message, 0), static_cast<ssize_t>(frame.size())) << std::strerror(errno);
  const auto refuse = [](std::span<const uint8_t>) { FAIL() << "the frame was delivered"; };
  EXPECT_EQ(to.Receive(64, refuse), 1u);
  EXPECT_EQ(loss, "from another user");
  NeighbourMedium from({TestMac(1)});
  from.Send(TestFrame(TestFlow(), "mine"));
  EXPECT_THAT(Receive(to, 1), ElementsAre(TestFrame(TestFlow(), "mine")));
}

TEST(Neighbours, InventedAddressesTakeBoundedMemory) {
  Neighbours neighbours({}, [](std::span<const uint8_t>) {});
  const auto gid = [](uint32_t number) {
    return Gid{0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0xff,
               0xff,
               10,
               1,
               static_cast<uint8_t>(number >> 8),
               static_cast<uint8_t>(number)};
  };
  for (uint32_t i = 0; i < 5000; ++i) {
    std::array<uint8_t, 42> reply{};
    reply[12] = 0x08;  // ARP
    reply[13] = 0x06;
    reply[21] = 2;  // a reply
    const Gid sender = gid(i);
    std::copy(sender.end() - 4, sender.end(), reply.begin() + 28);
    EXPECT_TRUE(neighbours.Take(reply));
    EXPECT_TRUE(neighbours.Find(gid(i)));
  }
  EXPECT_FALSE(neighbours.Find(gid(0))) << "it can be asked for again";
}

/// The two ends of a cable, in a folder of their own.
class CableMediumTest : public testing::TestWithParam<Gid> {
 protected:
  CableMediumTest() { mkdtemp(folder_.data()); }
  ~CableMediumTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const char* name) const { return folder_ + "/" + name; }

 private:
  std::string folder_ = testing::TempDir() + "cable.XXXXXX";
};

TEST_P(CableMediumTest, EndsFindEachOthersEthernetAddresses) {
  Gid far = GetParam();
  ++far[15];
  CableMedium from(Path("a"), Path("b"), {{GetParam(), TestMac(1)}});
  CableMedium to(Path("b"), Path("a"), {{far, TestMac(2)}});
  Flow flow = TestFlow();
  flow.source = GetParam();
  flow.destination = far;
  flow.destination_mac = {};
  from.Send(TestFrame(flow, "first"));
  from.Send(TestFrame(flow, "second"));
  const auto frames = Receive(to, 2, [&] { from.Receive(64, [](auto) {}); });
  flow.destination_mac = TestMac(2);
  EXPECT_THAT(frames, ElementsAre(TestFrame(flow, "first"), TestFrame(flow, "second")));
}

TEST_P(CableMediumTest, EndBelongsToOneProcessUntilItExits) {
  const auto make = [&] { CableMedium(Path("a"), Path("b"), {{GetParam(), TestMac(1)}}); };
  {
    const CableMedium first(Path("a"), Path("b"), {{GetParam(), TestMac(1)}});
    EXPECT_THROW(make(), CommandError);
  }
  sockaddr_un left{.sun_family = AF_UNIX, .sun_path = {}};
  Path("a").copy(left.sun_path, sizeof left.sun_path - 1);
  {
    const Descriptor killed(socket(AF_UNIX, SOCK_DGRAM, 0));
    ASSERT_EQ(bind(killed.get(), reinterpret_cast<const sockaddr*>(&left), sizeof left), 0);
  }
  EXPECT_NO_THROW(make());
  std::ofstream(Path("a")) << "a file";
  EXPECT_THROW(make(), CommandError);
  EXPECT_TRUE(std::filesystem::exists(Path("a"))) << "the file is the user's";
}

constexpr Gid kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
constexpr Gid kIpv6{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
INSTANTIATE_TEST_SUITE_P(By, CableMediumTest, testing::Values(kIpv4, kIpv6),
                         [](const auto& gid) { return gid.param == kIpv4 ? "Arp" : "NeighbourDiscovery"; });

TEST(AddressBlock, DerivesTheMacOfAnAddress) {
  for (const uint32_t block : {address_block::kFirst, 77u, address_block::kLast}) {
    for (const uint32_t device : {0u, 15u}) {
      for (const uint32_t port : {1u, 2u}) {
        EXPECT_EQ(address_block::MacOf(address_block::Ipv4GidOf(block, device, port)),
                  address_block::MacOf(block, device, port));
      }
    }
  }
  EXPECT_EQ(address_block::MacOf(kIpv4), std::nullopt);
}

}  // namespace
}  // namespace softhca
