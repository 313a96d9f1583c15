#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "host/endpoint/link.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shared_completions.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Endpoint::Reset(): the endpoint behaves like a new one, whatever its state and history.
namespace warpverbs::host {
namespace {

enum class Completions { kCollapsed, kRing, kShared };

class Reset : public testing::TestWithParam<Completions> {
 protected:
  EndpointConfig Config() {
    EndpointConfig config{.depth = 8};
    if (GetParam() == Completions::kCollapsed) config.cq_mode = CqMode::kCollapsed;
    if (GetParam() == Completions::kShared) config.completions = &shared_;
    return config;
  }

  /// Sends some messages and leaves one receive pending.
  void Converse(uint32_t cycle) {
    device::ReceiveQueue<Cpu> receives(link_.b.ReceiveView());
    Queue sends(link_.a.View());
    for (uint32_t i = 0; i <= cycle % 6; ++i) {
      ASSERT_TRUE(receives.Post(link_.target.Local(i)).ok());
      receives.Submit();
      link_.source[i] = ++link_.written;
      ASSERT_TRUE(sends.Post(device::SendImm(link_.source.Local(i), mlx5::Be32{i}), Within()).status.ok());
      const device::Received received = receives.Poll(Within());
      ASSERT_TRUE(received.status.ok()) << "cycle " << cycle;
      ASSERT_EQ(received.index, i);
      ASSERT_EQ(received.imm.raw, i);
      ASSERT_EQ(link_.target[i], link_.written);
    }
    ASSERT_TRUE(sends.Flush(Within()).ok());
    EXPECT_TRUE(receives.Post(link_.target.Local(0)).ok());
    receives.Submit();
  }

  void ResetBoth() {
    link_.a.Reset();
    link_.b.Reset();
  }

  Device device_;
  SharedCompletions shared_{device_, {.depth = 16}};
  Link link_{device_, Config(), {.receive_depth = 4}};
};

std::string NameOf(const testing::TestParamInfo<Completions>& mode) {
  constexpr const char* kNames[] = {"Collapsed", "Ring", "Shared"};
  return kNames[static_cast<int>(mode.param)];
}

INSTANTIATE_TEST_SUITE_P(EachCqMode, Reset,
                         testing::Values(Completions::kCollapsed, Completions::kRing, Completions::kShared),
                         NameOf);

TEST_P(Reset, ReturnsTheQueuePairToReset) {
  link_.a.Reset();
  EXPECT_EQ(link_.a.State(), mlx5::QpState::kReset) << "from RESET";
  link_.Connect();
  link_.a.Reset();
  EXPECT_EQ(link_.a.State(), mlx5::QpState::kReset) << "from RTS";
  link_.b.Reset();
  link_.Connect();
  link_.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link_.a.State() == mlx5::QpState::kError; }));
  link_.a.Reset();
  EXPECT_EQ(link_.a.State(), mlx5::QpState::kReset) << "from ERROR";
  EXPECT_THAT(link_.a.Describe(), testing::HasSubstr("path: not connected"));
}

TEST_P(Reset, KeepsNumberAndViewAndChangesThePsn) {
  const EndpointInfo info = link_.a.Info();
  const device::QueueView view = link_.a.View();
  bool other_psn = false;
  for (int i = 0; i < 8; ++i) {  // two are equal by chance once in 2^24
    link_.a.Reset();
    other_psn |= link_.a.Info().psn != info.psn;
  }
  EXPECT_TRUE(other_psn);
  EXPECT_EQ(link_.a.Info().qpn, info.qpn);
  const device::QueueView again = link_.a.View();
  EXPECT_EQ(again.sq, view.sq);
  EXPECT_EQ(again.doorbell, view.doorbell);
  EXPECT_EQ(again.dbrec, view.dbrec);
  EXPECT_EQ(again.cqe, view.cqe);
  EXPECT_EQ(again.control, view.control);
  EXPECT_EQ(again.qpn_be, view.qpn_be);
}

TEST_P(Reset, ForgetsPostsAndFailures) {
  link_.Connect();
  ASSERT_TRUE(link_.Write(5).ok());
  link_.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link_.a.LastError().has_value(); }));
  ASSERT_EQ(link_.Write(1).code, Code::kError);
  link_.a.Reset();
  const device::QueueView view = link_.a.View();
  EXPECT_EQ(view.control->tail, 0);
  EXPECT_EQ(view.control->ready, 0);
  EXPECT_EQ(view.control->error, 0);
  EXPECT_EQ(*view.dbrec, 0);
  EXPECT_EQ(device::RawSendQueue<Cpu>(view).PollCqOnce(0).code, Code::kPending);
  EXPECT_FALSE(link_.a.LastError().has_value());
}

TEST_P(Reset, WorksAHundredTimes) {
  for (int cycle = 0; cycle < 100; ++cycle) {
    link_.Connect();
    // A different number of completions each time, so that a ring restarts at each of its slots.
    const device::Status status = link_.Write(1 + cycle % 7);
    ASSERT_TRUE(status.ok()) << "cycle " << cycle << ", syndrome " << int{status.syndrome};
    if (cycle % 3 == 0) {
      link_.PostWrongWrite();
      ASSERT_TRUE(Await([&] { return link_.a.LastError().has_value(); })) << "cycle " << cycle;
      ASSERT_EQ(link_.a.LastError()->syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
    }
    ResetBoth();
  }
}

TEST_P(Reset, DropsPendingCompletions) {
  for (int cycle = 0; cycle < 20; ++cycle) {
    link_.Connect();
    const int last = cycle % 8;
    {
      Queue queue(link_.a.View());
      for (int i = 0; i <= last; ++i) {  // the NIC may still read the words of earlier writes
        link_.source[i] = ++link_.written;
        ASSERT_TRUE(queue.Post(device::Write(link_.target.Remote(i), link_.source.Local(i))).status.ok());
      }
    }
    ASSERT_TRUE(Await([&] { return Cpu::Load(&link_.target[last]) == link_.written; }));
    ResetBoth();  // with or without the last completion
    link_.Connect();
    ASSERT_TRUE(link_.Write(3).ok()) << "cycle " << cycle;
    ResetBoth();
  }
}

TEST_P(Reset, AllowsReceivesAtAnyPlaceOfTheRing) {
  for (uint32_t cycle = 0; cycle < 20; ++cycle) {
    link_.Connect();
    Converse(cycle);
    ResetBoth();
    ASSERT_EQ(*link_.b.ReceiveView().dbrec, 0);
  }
}

/// Leaves the lock taken, like a poster that is killed while it handles completions.
void AbandonTheLock(device::CompletionRingControl& ring) {
  Cpu::Store(&ring.consumer, Cpu::Load(&ring.consumer) | device::kRingLocked);
}

class ResetWithALockedRing : public testing::Test {
 protected:
  Device device_;
  SharedCompletions shared_{device_, {.depth = 16}};
  Link link_{device_, {.depth = 8, .completions = &shared_}};
};

TEST_F(ResetWithALockedRing, IsRefusedWithAReason) {
  AbandonTheLock(shared_.control());
  try {
    link_.a.Reset();
    FAIL() << "reset a queue whose ring is locked";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a poster holds the lock of its ring of shared completions. "
                                                 "Call SharedCompletions::Recover()"));
  }
}

TEST_F(ResetWithALockedRing, LeavesNothingThatCouldBeConnected) {
  const uint32_t psn = link_.a.Info().psn;
  AbandonTheLock(shared_.control());
  EXPECT_THROW(link_.a.Reset(), Error);
  EXPECT_EQ(link_.a.Info().psn, psn);
  EXPECT_THAT(link_.a.Describe(), testing::HasSubstr("path: connecting or resetting failed"));
  try {
    link_.a.Connect(link_.b.Info());
    FAIL() << "connected a queue with old entries";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("Call Reset() on both sides first"));
  }
}

TEST_F(ResetWithALockedRing, WorksAfterTheRingIsRecovered) {
  link_.Connect();
  ASSERT_TRUE(link_.Write(3).ok());
  AbandonTheLock(shared_.control());
  link_.PostWrongWrite();
  ASSERT_TRUE(Await([&] { return link_.a.LastError().has_value(); }));
  shared_.Recover();
  link_.a.Reset();
  link_.b.Reset();
  EXPECT_FALSE(link_.a.LastError().has_value());
  link_.Connect();
  EXPECT_TRUE(link_.Write(100).ok());
}

TEST(ResetOfARing, LetsNewPostersStartWithoutAHintOrWithAWrongOne) {
  const Device device;
  Link link(device, {.depth = 8});
  for (uint32_t cycle = 0; cycle < 20; ++cycle) {
    link.Connect();
    uint64_t& cursor = link.a.View().control->cursor;
    EXPECT_EQ(static_cast<uint32_t>(cursor), 0) << "nothing is complete";
    if (cycle % 3 != 0) Cpu::Store(&cursor, cycle % 3 == 1 ? 0 : ~uint64_t{0} / cycle);
    ASSERT_TRUE(link.Write(cycle % 11).ok());
    EXPECT_FALSE(link.a.LastError().has_value());
    link.PostWrongWrite();
    ASSERT_TRUE(Await([&] { return link.a.LastError().has_value(); }));
    EXPECT_EQ(link.a.LastError()->wqe_index, cycle % 11);
    EXPECT_EQ(Queue(link.a.View()).Flush(Within()).wqe_index, cycle % 11);
    link.a.Reset();
    link.b.Reset();
    EXPECT_FALSE(link.a.LastError().has_value());
  }
}

}  // namespace
}  // namespace warpverbs::host
