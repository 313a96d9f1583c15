#include "core/qp.hpp"

#include <gtest/gtest.h>

#include <tuple>

#include "core/error.hpp"
#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::CommandStatus;
using mlx5::QpState;

class QpStateTest : public testing::Test {
 protected:
  /// Returns the attributes of all transitions: superfluous ones are ignored.
  QpChange Everything() const {
    QpChange change = ToRtr(hca.config(), qp.qpn);
    const QpChange init = ToInit(), rts = ToRts();
    change.access = init.access;
    change.pkey_index = init.pkey_index;
    change.port = init.port;
    change.send_psn = rts.send_psn;
    change.max_reads_out = rts.max_reads_out;
    change.ack_timeout = rts.ack_timeout;
    change.retry_count = rts.retry_count;
    change.rnr_retry = rts.rnr_retry;
    change.qkey = 0x11111111;
    return change;
  }
  void BringTo(QpState state) {
    Modify(QpState::kReset, {});
    if (state == QpState::kReset) return;
    if (state == QpState::kError) return Modify(QpState::kError, {});
    for (const QpState step : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
      Modify(step, Everything());
      if (step == state) return;
    }
  }
  void Modify(QpState to, const QpChange& change) { hca.ModifyQp(qp.qpn, to, change); }
  CommandStatus StatusOf(QpState to, const QpChange& change) {
    try {
      Modify(to, change);
    } catch (const CommandError& error) {
      return error.status();
    }
    return CommandStatus::kOk;
  }
  QpState State() const { return hca.Qp(qp.qpn).state; }

  explicit QpStateTest(mlx5::ServiceType service = mlx5::ServiceType::kRc) : service_(service) {}

  mlx5::ServiceType service_;
  Hca hca{TestDevice()};
  QpUser qp{hca, hca.AllocPd(), {.service = service_}};
};

/// A transition with one attribute missing.
struct Omission {
  const char* name;
  QpState to;
  void (*omit)(QpChange&);
};

void PrintTo(const Omission& omission, std::ostream* out) { *out << omission.name; }

const Omission kPort{"Port", QpState::kInit, [](QpChange& c) { c.port.reset(); }};
const Omission kPkeyIndex{"PkeyIndex", QpState::kInit, [](QpChange& c) { c.pkey_index.reset(); }};
const Omission kAccess{"Access", QpState::kInit, [](QpChange& c) { c.access.reset(); }};
const Omission kQkey{"Qkey", QpState::kInit, [](QpChange& c) { c.qkey.reset(); }};
const Omission kPath{"Path", QpState::kRtr, [](QpChange& c) { c.path.reset(); }};
const Omission kMtu{"Mtu", QpState::kRtr, [](QpChange& c) { c.mtu.reset(); }};
const Omission kRemoteQpn{"RemoteQpn", QpState::kRtr, [](QpChange& c) { c.remote_qpn.reset(); }};
const Omission kReceivePsn{"ReceivePsn", QpState::kRtr, [](QpChange& c) { c.receive_psn.reset(); }};
const Omission kMaxReadsIn{"MaxReadsIn", QpState::kRtr, [](QpChange& c) { c.max_reads_in.reset(); }};
const Omission kMinRnrTimer{"MinRnrTimer", QpState::kRtr, [](QpChange& c) { c.min_rnr_timer.reset(); }};
const Omission kAckTimeout{"AckTimeout", QpState::kRts, [](QpChange& c) { c.ack_timeout.reset(); }};
const Omission kRetryCount{"RetryCount", QpState::kRts, [](QpChange& c) { c.retry_count.reset(); }};
const Omission kRnrRetry{"RnrRetry", QpState::kRts, [](QpChange& c) { c.rnr_retry.reset(); }};
const Omission kSendPsn{"SendPsn", QpState::kRts, [](QpChange& c) { c.send_psn.reset(); }};
const Omission kMaxReadsOut{"MaxReadsOut", QpState::kRts, [](QpChange& c) { c.max_reads_out.reset(); }};

TEST_F(QpStateTest, AcceptsExactlyTheValidTransitions) {
  const std::vector<QpState> states = {QpState::kReset, QpState::kInit, QpState::kRtr, QpState::kRts,
                                       QpState::kError};
  const auto exists = [](QpState from, QpState to) {
    if (to == QpState::kReset || to == QpState::kError) return true;
    if (to == QpState::kInit) return from == QpState::kReset || from == QpState::kInit;
    if (to == QpState::kRtr) return from == QpState::kInit;
    return from == QpState::kRtr || from == QpState::kRts;
  };
  for (const QpState from : states) {
    for (const QpState to : states) {
      BringTo(from);
      ASSERT_EQ(State(), from);
      const CommandStatus status = StatusOf(to, Everything());
      SCOPED_TRACE(testing::Message() << static_cast<int>(from) << " to " << static_cast<int>(to));
      EXPECT_EQ(status, exists(from, to) ? CommandStatus::kOk : CommandStatus::kBadQpState);
      EXPECT_EQ(State(), exists(from, to) ? to : from);
    }
  }
}

TEST_F(QpStateTest, RefusesUnsupportedStates) {
  BringTo(QpState::kRts);
  EXPECT_EQ(StatusOf(QpState::kSqDrained, {}), CommandStatus::kBadQpState);
  EXPECT_EQ(StatusOf(QpState::kSqError, {}), CommandStatus::kBadQpState);
}

/// A service, an attribute, and whether the transition needs it.
using Need = std::tuple<mlx5::ServiceType, Omission, bool>;

class QpOmissionTest : public QpStateTest, public testing::WithParamInterface<Need> {
 protected:
  QpOmissionTest() : QpStateTest(std::get<mlx5::ServiceType>(GetParam())) {}
};

TEST_P(QpOmissionTest, IsRefusedWhenTheServiceNeedsTheAttribute) {
  const auto& [service, omission, needed] = GetParam();
  const QpState from = static_cast<QpState>(static_cast<int>(omission.to) - 1);
  BringTo(from);
  QpChange change = Everything();
  omission.omit(change);
  EXPECT_EQ(StatusOf(omission.to, change), needed ? CommandStatus::kBadParameter : CommandStatus::kOk);
  EXPECT_EQ(State(), needed ? from : omission.to);
}

std::vector<Need> Needs(mlx5::ServiceType service, const std::vector<Omission>& needed,
                        const std::vector<Omission>& superfluous) {
  std::vector<Need> needs;
  for (const Omission& omission : needed) needs.emplace_back(service, omission, true);
  for (const Omission& omission : superfluous) needs.emplace_back(service, omission, false);
  return needs;
}

const auto kAttributeName = [](const auto& need) { return std::get<Omission>(need.param).name; };

INSTANTIATE_TEST_SUITE_P(ReliableConnection, QpOmissionTest,
                         testing::ValuesIn(Needs(mlx5::ServiceType::kRc,
                                                 {kPort, kPkeyIndex, kAccess, kPath, kMtu, kRemoteQpn,
                                                  kReceivePsn, kMaxReadsIn, kMinRnrTimer, kAckTimeout,
                                                  kRetryCount, kRnrRetry, kSendPsn, kMaxReadsOut},
                                                 {kQkey})),
                         kAttributeName);
INSTANTIATE_TEST_SUITE_P(UnreliableConnection, QpOmissionTest,
                         testing::ValuesIn(Needs(mlx5::ServiceType::kUc,
                                                 {kPort, kPkeyIndex, kAccess, kPath, kMtu, kRemoteQpn,
                                                  kReceivePsn, kSendPsn},
                                                 {kQkey, kMaxReadsIn, kMinRnrTimer, kAckTimeout, kRetryCount,
                                                  kRnrRetry, kMaxReadsOut})),
                         kAttributeName);
INSTANTIATE_TEST_SUITE_P(Datagram, QpOmissionTest,
                         testing::ValuesIn(Needs(mlx5::ServiceType::kUd, {kPort, kPkeyIndex, kQkey, kSendPsn},
                                                 {kAccess, kPath, kMtu, kRemoteQpn, kReceivePsn, kMaxReadsIn,
                                                  kMinRnrTimer, kAckTimeout, kRetryCount, kRnrRetry,
                                                  kMaxReadsOut})),
                         kAttributeName);

TEST_F(QpStateTest, RefusesAPortOutOfRange) {
  for (const uint8_t port : {0, 2, 255}) {
    QpChange change = ToInit();
    change.port = port;
    EXPECT_EQ(StatusOf(QpState::kInit, change), CommandStatus::kBadParameter) << int{port};
  }
}

TEST_F(QpStateTest, RefusesAnMtuAboveThePorts) {
  Hca small([] {
    DeviceConfig device = TestDevice();
    device.mtu = mlx5::Mtu::k1024;
    return device;
  }());
  QpUser user(small, small.AllocPd());
  small.ModifyQp(user.qpn, QpState::kInit, ToInit());
  QpChange change = ToRtr(small.config(), user.qpn);
  change.mtu = mlx5::Mtu::k2048;
  EXPECT_THROW(small.ModifyQp(user.qpn, QpState::kRtr, change), CommandError);
  change.mtu = static_cast<mlx5::Mtu>(0);
  EXPECT_THROW(small.ModifyQp(user.qpn, QpState::kRtr, change), CommandError);
  change.mtu = mlx5::Mtu::k1024;
  EXPECT_NO_THROW(small.ModifyQp(user.qpn, QpState::kRtr, change));
}

TEST_F(QpStateTest, RefusesAnEthernetPathWithoutAGid) {
  BringTo(QpState::kInit);
  QpChange change = Everything();
  change.path->grh = false;
  EXPECT_EQ(StatusOf(QpState::kRtr, change), CommandStatus::kBadParameter);
}

TEST_F(QpStateTest, RefusesALocalGidIndexOutOfRange) {
  BringTo(QpState::kInit);
  QpChange change = Everything();
  change.path->local_gid_index = 1;
  EXPECT_EQ(StatusOf(QpState::kRtr, change), CommandStatus::kBadParameter);
}

TEST_F(QpStateTest, ChangesSingleAttributesInRts) {
  BringTo(QpState::kRts);
  QpChange change;
  change.access = kAccessRemoteRead;
  ASSERT_EQ(StatusOf(QpState::kRts, change), CommandStatus::kOk);
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.access, uint32_t{kAccessRemoteRead});
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.retry_count, 7);
}

TEST_F(QpStateTest, ResetClearsTheConnection) {
  BringTo(QpState::kRts);
  Modify(QpState::kReset, {});
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.remote_qpn, 0u);
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.port, 0);
}

TEST_F(QpStateTest, ErrorWithASharedReceiveQueueReportsTheLastWqeOnce) {
  mlx5::Be32 record{};
  std::vector<uint8_t> ring(4 * 64);
  const uint32_t pd = hca.AllocPd();
  const uint32_t srqn = hca.CreateSrq(
      {.pdn = pd, .queue = {.ring = ring.data(), .dbr = &record, .depth = 4, .stride = 64, .linked = true}});
  QpUser user(hca, pd, {.receive_depth = 0, .srqn = srqn});
  user.Connect(user);
  hca.ModifyQp(user.qpn, QpState::kError, {});
  hca.ModifyQp(user.qpn, QpState::kError, {});
  EXPECT_EQ(user.events, std::vector{QpEvent::kLastWqeReached});
}

TEST_F(QpStateTest, RefusesToModifyAnAbsentQueuePair) {
  try {
    hca.ModifyQp(0xffffff, QpState::kInit, ToInit());
    FAIL() << "the command was accepted";
  } catch (const CommandError& error) {
    EXPECT_EQ(error.status(), CommandStatus::kBadResource);
    EXPECT_STREQ(error.what(), "queue pair 16777215 does not exist");
  }
}

}  // namespace
}  // namespace softhca
