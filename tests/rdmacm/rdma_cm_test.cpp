#include "warpverbs/host/rdma_cm.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <future>
#include <string>
#include <string_view>

#include "host/connect/exchange_fixture.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/exchange.hpp"

/// Takes precedence over the C library's function. "two-homed" is a host whose first address leads nowhere.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints, addrinfo** list) {
  static auto* const own = reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::string_view(host) != "two-homed") return own(host, port, hints, list);
  if ((hints->ai_flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (const int failure = own("192.0.2.1", port, hints, list)) return failure;
  addrinfo* last = *list;
  while (last->ai_next != nullptr) last = last->ai_next;
  return own("127.0.0.1", port, hints, &last->ai_next);
}

namespace warpverbs::host {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class RdmaCm : public testing::Test {
 protected:
  TcpAddress There(uint16_t port) const { return {"127.0.0.1", port}; }

  /// Connects both endpoints of a link, in two threads.
  std::pair<CmConnection, CmConnection> Connect(Link& link) {
    auto accepting = std::async(std::launch::async, [&] { return listener_.Accept(link.b, Soon()); });
    CmConnection active = CmConnection::Connect(link.a, There(listener_.port()), Soon());
    return {std::move(active), accepting.get()};
  }

  Device device_;
  CmListener listener_;
};

TEST_F(RdmaCm, ConnectsEndpointsThatCarryData) {
  Link link(device_);
  const auto connections = Connect(link);
  EXPECT_EQ(link.a.State(), mlx5::QpState::kRts);
  EXPECT_EQ(link.b.State(), mlx5::QpState::kRts);
  EXPECT_TRUE(link.Write(100).ok());
}

TEST_F(RdmaCm, ConnectsManyByOneListener) {
  for (int i = 0; i < 20; ++i) {
    Link link(device_);
    const auto connections = Connect(link);
    ASSERT_TRUE(link.Write(1).ok());
  }
}

TEST_F(RdmaCm, TellsThePeerOfTheEnd) {
  Link link(device_);
  auto [active, passive] = Connect(link);
  EXPECT_FALSE(passive.AwaitEnd(AtOnce()));
  { const CmConnection gone = std::move(active); }
  EXPECT_TRUE(passive.AwaitEnd(Soon()));
  EXPECT_TRUE(passive.AwaitEnd(AtOnce())) << "the end is permanent";
}

TEST_F(RdmaCm, ConnectsAgainAfterAReset) {
  Link link(device_);
  for (int i = 0; i < 3; ++i) {
    const auto connections = Connect(link);
    EXPECT_TRUE(link.Write(3).ok());
    link.a.Reset();
    link.b.Reset();
  }
}

TEST_F(RdmaCm, WaitsForAPeerThatListensLater) {
  const uint16_t port = CmListener().port();  // the port is free again
  Endpoint a(device_), b(device_);
  auto connecting =
      std::async(std::launch::async, [&] { return CmConnection::Connect(a, There(port), Soon()); });
  CmListener listener({"", port});
  const CmConnection passive = listener.Accept(b, Soon());
  connecting.get();
}

TEST_F(RdmaCm, UsesTheFirstAddressThatLeadsToThePeer) {
  Link link(device_);
  auto accepting = std::async(std::launch::async, [&] { return listener_.Accept(link.b, Soon()); });
  const CmConnection active = CmConnection::Connect(link.a, {"two-homed", listener_.port()}, Soon());
  const CmConnection passive = accepting.get();
  EXPECT_TRUE(link.Write(10).ok());
}

TEST_F(RdmaCm, ReportsThatNobodyListensAtAnyAddress) {
  const uint16_t port = CmListener().port();
  Endpoint endpoint(device_);
  EXPECT_THAT(SentenceOf([&] {
                CmConnection::Connect(endpoint, {"two-homed", port}, DeadlineIn(std::chrono::seconds(2)));
              }),
              HasSubstr("nobody listens at that address"));
  EXPECT_EQ(endpoint.State(), mlx5::QpState::kReset);
}

TEST_F(RdmaCm, ReportsThatNobodyListens) {
  const uint16_t port = CmListener().port();
  Endpoint endpoint(device_);
  EXPECT_THAT(
      SentenceOf([&] { CmConnection::Connect(endpoint, There(port), DeadlineIn(std::chrono::seconds(1))); }),
      AllOf(StartsWith("Cannot connect QP " + std::to_string(endpoint.qpn()) + " to 127.0.0.1 port " +
                       std::to_string(port) + " by rdma_cm: "),
            HasSubstr("nobody listens at that address (RDMA_CM_EVENT_REJECTED, status 8) within ")));
  EXPECT_EQ(endpoint.State(), mlx5::QpState::kReset);
}

TEST_F(RdmaCm, ReportsThatThePeerDoesNotAnswer) {
  Endpoint endpoint(device_);
  EXPECT_THAT(SentenceOf([&] {
                CmConnection::Connect(endpoint, There(listener_.port()),
                                      DeadlineIn(std::chrono::milliseconds(300)));
              }),
              HasSubstr("the peer did not answer within "));
}

TEST_F(RdmaCm, ReportsThatNobodyConnected) {
  Endpoint endpoint(device_);
  EXPECT_THAT(SentenceOf([&] { listener_.Accept(endpoint, AtOnce()); }),
              AllOf(StartsWith("Cannot accept a peer of QP "),
                    HasSubstr("no RDMA_CM_EVENT_CONNECT_REQUEST came within ")));
}

TEST_F(RdmaCm, QuotesThePeersRefusal) {
  // Only one of the two accepts the other's type of GID.
  Endpoint a(device_);
  const auto gids = device_.Gids(device_.ActivePort());
  const auto v1 = std::find_if(gids.begin(), gids.end(),
                               [](const GidEntry& one) { return one.type == GidType::kRoceV1; });
  if (v1 == gids.end()) GTEST_SKIP() << "the device has no GID of another type";
  Endpoint b(device_, {.gid_index = static_cast<int>(v1->index)});
  auto accepting =
      std::async(std::launch::async, [&] { return SentenceOf([&] { listener_.Accept(b, Soon()); }); });
  const std::string active = SentenceOf([&] { CmConnection::Connect(a, There(listener_.port()), Soon()); });
  EXPECT_THAT(active, HasSubstr("the peer refused: Cannot "));
  EXPECT_THAT(accepting.get(), StartsWith("Cannot "));
  EXPECT_EQ(a.State(), mlx5::QpState::kReset);
  EXPECT_EQ(b.State(), mlx5::QpState::kReset);
}

/// Connects with private data that no peer sends. Returns 0, or the errno value.
int ConnectAsAStranger(uint16_t port) {
  constexpr int kTimeoutMs = 10'000;
  sockaddr_in there{
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return errno;
  const std::string data = "GET / HTTP/1.1";
  rdma_conn_param offer{};
  offer.private_data = data.data();
  offer.private_data_len = static_cast<uint8_t>(data.size());
  const bool connected =
      rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&there), kTimeoutMs) == 0 &&
      rdma_resolve_route(id, kTimeoutMs) == 0 && rdma_connect(id, &offer) == 0;
  const int error = connected ? 0 : errno;
  rdma_destroy_id(id);
  return error;
}

TEST_F(RdmaCm, ServesThePeerThatComesAfterAStranger) {
  Link link(device_);
  auto accepting = std::async(std::launch::async, [&] { return listener_.Accept(link.b, Soon()); });
  EXPECT_EQ(ConnectAsAStranger(listener_.port()), ECONNREFUSED);
  const CmConnection active = CmConnection::Connect(link.a, There(listener_.port()), Soon());
  const CmConnection passive = accepting.get();
  EXPECT_TRUE(link.Write(100).ok());
}

TEST_F(RdmaCm, RejectsConnectedEndpoints) {
  Link link(device_);
  link.Connect();
  EXPECT_THAT(SentenceOf([&] { CmConnection::Connect(link.a, There(listener_.port()), Soon()); }),
              HasSubstr("it is in state RTS. Call Reset() on both sides first"));
  EXPECT_TRUE(link.Write(1).ok()) << "the connection still works";
}

TEST_F(RdmaCm, ReportsARouteThroughAnotherDevice) {
  const Device second("mlx5_1");
  Endpoint endpoint(second);
  EXPECT_THAT(SentenceOf([&] { CmConnection::Connect(endpoint, There(listener_.port()), Soon()); }),
              HasSubstr("the route leads through mlx5_0, and the endpoint is on mlx5_1"));
}

TEST_F(RdmaCm, ReportsATakenPort) {
  EXPECT_THAT(SentenceOf([&] {
                CmListener({"", listener_.port()});
              }),
              AllOf(StartsWith("Cannot listen on port "), HasSubstr("EADDRNOTAVAIL")));
}

TEST_F(RdmaCm, LeaksNoFile) {
  Link link(device_);
  size_t before = 0;
  for (int i = 0; i <= 100; ++i) {
    { const auto connections = Connect(link); }
    link.a.Reset();
    link.b.Reset();
    if (i == 0) before = OpenFiles();
  }
  EXPECT_EQ(OpenFiles(), before);
}

}  // namespace
}  // namespace warpverbs::host
