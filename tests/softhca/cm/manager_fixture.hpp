#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "cm/manager.hpp"

namespace softhca::cm {

using Kind = Event::Kind;

inline constexpr uint64_t kServiceId = 0x01061c06;

inline Gid GidOf(uint8_t last) { return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 83, 1, last}; }

inline DeviceConfig ConfigOf(uint8_t last) {
  PortConfig port;
  port.gids = {{GidOf(last), mlx5::RoceVersion::kV1}, {GidOf(last), mlx5::RoceVersion::kV2}};
  return {.name = "mlx5_0", .guid = last, .ports = {port}};
}

/// Carries MADs between sides, or loses them. Its clock moves only when a test moves it.
class Cable : public ManagementSink {
 public:
  void SendMad(Hca& hca, uint8_t port, uint8_t gid_index, const Gid& destination, const Mad& mad) override {
    const Gid& source = hca.config().ports[port - 1u].gids[gid_index].gid;
    sent.push_back({source, destination, mad});
  }

  struct Sent {
    Gid source, destination;
    Mad mad;
    Message message() const { return Decode(mad).value(); }
  };
  std::deque<Sent> sent;
  uint64_t now_ns = 1'000;
  std::optional<uint64_t> process;  ///< process behind either address
};

struct Notice {
  Kind kind;
  int32_t status;
  friend bool operator==(const Notice&, const Notice&) = default;
};

/// One side: a device, its manager, and a user that records every notice.
class Side : public User, public Listener {
 public:
  Side(Cable& cable, uint8_t last, uint32_t first_id)
      : hca(ConfigOf(last)),
        manager(
            cable, [&cable] { return cable.now_ns; }, first_id,
            [&cable](const Gid&) { return cable.process; }) {}

  void OnEvent(const Event& event) override {
    notices.push_back({event.kind, event.status});
    private_data.assign(event.private_data.begin(), event.private_data.end());
  }
  bool Matches(std::span<const uint8_t> /*private_data*/) const override { return matches; }
  bool OnRequest(Connection& request, const Req& req) override {
    if (refuses) return false;
    connection = &request;
    connection->set_user(this);
    private_data.assign(req.private_data.begin(), req.private_data.end());
    ++requests;
    return true;
  }
  bool OnRequest(ServiceQuery& asked, const SidrReq& /*req*/) override {
    if (refuses) return false;
    query = &asked;
    query->set_user(this);
    ++requests;
    return true;
  }
  std::vector<Notice> TakeNotices() { return std::exchange(notices, {}); }

  Hca hca;
  ConnectionManager manager;
  Connection* connection = nullptr;
  ServiceQuery* query = nullptr;
  bool matches = true, refuses = false;
  int requests = 0;
  std::vector<Notice> notices;
  std::vector<uint8_t> private_data;
};

/// A connection manager on each side of a cable. The passive one listens.
class CmTest : public testing::Test {
 protected:
  CmTest() { passive.manager.Listen(kServiceId, passive); }

  Side& Owner(const Gid& gid) { return gid == GidOf(1) ? active : passive; }

  void Deliver(const Cable::Sent& sent) {
    Side& to = Owner(sent.destination);
    to.manager.OnMad(
        to.hca, 1,
        {.source = sent.source, .destination = sent.destination, .version = mlx5::RoceVersion::kV2},
        sent.mad);
  }
  void DeliverNext() {
    const Cable::Sent next = cable.sent.front();
    cable.sent.pop_front();
    Deliver(next);
  }
  void DeliverAll() {
    while (!cable.sent.empty()) DeliverNext();
  }
  /// Advances the clock until something is sent or reported.
  ///
  /// @return  false if nothing happens within `most_ns`
  bool PassTime(uint64_t most_ns = UINT64_MAX / 2) {
    const uint64_t end = cable.now_ns + most_ns;
    const size_t notices = active.notices.size() + passive.notices.size();
    while (cable.sent.empty() && active.notices.size() + passive.notices.size() == notices) {
      const uint64_t next = std::min(active.manager.NextNs(), passive.manager.NextNs());
      if (next > end) return false;
      cable.now_ns = std::max(cable.now_ns, next);
      active.manager.OnTime(cable.now_ns);
      passive.manager.OnTime(cable.now_ns);
    }
    return true;
  }

  Route ToPassive() { return {&active.hca, 1, 1, GidOf(2)}; }
  void Request() {
    active.connection = &active.manager.MakeConnection(ToPassive());
    active.connection->set_user(&active);
    ASSERT_TRUE(active.connection->Request(kServiceId, active_offer));
  }
  void Establish() {
    Request();
    DeliverAll();
    ASSERT_EQ(passive.requests, 1);
    ASSERT_TRUE(passive.connection->Reply(passive_offer));
    DeliverAll();
    ASSERT_TRUE(active.connection->Confirm());
    DeliverAll();
    ASSERT_THAT(active.TakeNotices(), testing::ElementsAre(Notice{Kind::kReply, 0}));
    ASSERT_THAT(passive.TakeNotices(), testing::ElementsAre(Notice{Kind::kEstablished, 0}));
  }
  static constexpr uint64_t kSecond = 1'000'000'000;

  Cable cable;
  Side active{cable, 1, 1000}, passive{cable, 2, 2000};
  std::vector<uint8_t> hello{'h', 'i'};
  Offer active_offer{.qpn = 0x101,
                     .psn = 0x1111,
                     .responder_resources = 3,
                     .initiator_depth = 2,
                     .retry_count = 5,
                     .rnr_retry_count = 6,
                     .private_data = hello};
  Offer passive_offer{
      .qpn = 0x202, .psn = 0x2222, .responder_resources = 2, .initiator_depth = 1, .rnr_retry_count = 4};
};

}  // namespace softhca::cm
