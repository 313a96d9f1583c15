#include "core/qp.hpp"

#include <gtest/gtest.h>

#include "core/error.hpp"
#include "core/queues.hpp"

namespace softhca {
namespace {

using mlx5::CommandStatus;
using mlx5::QpState;

class QpStateTest : public testing::Test {
 protected:
  /// What the transition to a state needs, and more: superfluous attributes are no error.
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

  Hca hca{TestDevice()};
  QpUser qp{hca, hca.AllocPd()};
};

TEST_F(QpStateTest, TakesTheTransitionsThatExistAndNoOther) {
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

TEST_F(QpStateTest, RefusesStatesThatItDoesNotHave) {
  BringTo(QpState::kRts);
  EXPECT_EQ(StatusOf(QpState::kSqDrained, {}), CommandStatus::kBadQpState);
  EXPECT_EQ(StatusOf(QpState::kSqError, {}), CommandStatus::kBadQpState);
}

/// One attribute taken out of a transition that is otherwise complete.
struct Omission {
  const char* name;
  QpState to;
  void (*omit)(QpChange&);
};

void PrintTo(const Omission& omission, std::ostream* out) { *out << omission.name; }

class QpOmissionTest : public QpStateTest, public testing::WithParamInterface<Omission> {};

TEST_P(QpOmissionTest, IsRefusedAndChangesNothing) {
  const QpState from = static_cast<QpState>(static_cast<int>(GetParam().to) - 1);
  BringTo(from);
  QpChange change = Everything();
  GetParam().omit(change);
  EXPECT_EQ(StatusOf(GetParam().to, change), CommandStatus::kBadParameter);
  EXPECT_EQ(State(), from);
}

INSTANTIATE_TEST_SUITE_P(
    Attributes, QpOmissionTest,
    testing::Values(Omission{"Port", QpState::kInit, [](QpChange& c) { c.port.reset(); }},
                    Omission{"PkeyIndex", QpState::kInit, [](QpChange& c) { c.pkey_index.reset(); }},
                    Omission{"Access", QpState::kInit, [](QpChange& c) { c.access.reset(); }},
                    Omission{"Path", QpState::kRtr, [](QpChange& c) { c.path.reset(); }},
                    Omission{"Mtu", QpState::kRtr, [](QpChange& c) { c.mtu.reset(); }},
                    Omission{"RemoteQpn", QpState::kRtr, [](QpChange& c) { c.remote_qpn.reset(); }},
                    Omission{"ReceivePsn", QpState::kRtr, [](QpChange& c) { c.receive_psn.reset(); }},
                    Omission{"MaxReadsIn", QpState::kRtr, [](QpChange& c) { c.max_reads_in.reset(); }},
                    Omission{"MinRnrTimer", QpState::kRtr, [](QpChange& c) { c.min_rnr_timer.reset(); }},
                    Omission{"AckTimeout", QpState::kRts, [](QpChange& c) { c.ack_timeout.reset(); }},
                    Omission{"RetryCount", QpState::kRts, [](QpChange& c) { c.retry_count.reset(); }},
                    Omission{"RnrRetry", QpState::kRts, [](QpChange& c) { c.rnr_retry.reset(); }},
                    Omission{"SendPsn", QpState::kRts, [](QpChange& c) { c.send_psn.reset(); }},
                    Omission{"MaxReadsOut", QpState::kRts, [](QpChange& c) { c.max_reads_out.reset(); }}),
    [](const auto& omission) { return omission.param.name; });

TEST_F(QpStateTest, RefusesAPortThatTheDeviceDoesNotHave) {
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

TEST_F(QpStateTest, RefusesALocalGidThatIsNotInTheTable) {
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

TEST_F(QpStateTest, ResetForgetsTheConnection) {
  BringTo(QpState::kRts);
  Modify(QpState::kReset, {});
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.remote_qpn, 0u);
  EXPECT_EQ(hca.Qp(qp.qpn).attributes.port, 0);
}

TEST_F(QpStateTest, ErrorOfASharedReceiverAnnouncesTheLastReceiveOnce) {
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

TEST_F(QpStateTest, ModifyOfAnAbsentQueuePairIsRefused) {
  try {
    hca.ModifyQp(0xffffff, QpState::kInit, ToInit());
    FAIL() << "it was taken";
  } catch (const CommandError& error) {
    EXPECT_EQ(error.status(), CommandStatus::kBadResource);
    EXPECT_STREQ(error.what(), "there is no queue pair 16777215");
  }
}

}  // namespace
}  // namespace softhca
