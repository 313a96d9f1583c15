#include "warpverbs/host/completion_channel.hpp"

#include <gtest/gtest.h>
#include <poll.h>

#include "host/device/softhca.hpp"
#include "host/endpoint/link.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"

/// Completions that wake a sleeping thread.
namespace warpverbs::host {
namespace {

constexpr int kLongMs = 60'000, kNoTimeMs = 0;

bool IsReadable(const CompletionChannel& channel, int timeout_ms) {
  pollfd file{.fd = channel.fd(), .events = POLLIN, .revents = 0};
  return poll(&file, 1, timeout_ms) == 1;
}

/// A writer whose completions are on a ring, and a peer with receives.
struct CompletionChannelTest : testing::Test {
  CompletionChannelTest() { link.Connect(); }

  void Write() {
    const mlx5::Be64 doorbell = ring.PostWrite(posted, link.target.Remote(0), link.source.Local(0));
    ring.UpdateSendDbrRecord(++posted);
    ring.RingDoorbell(doorbell);
  }
  void Await() { ASSERT_TRUE(completions.PollCq(Within()).ok()); }

  Device device;
  CompletionChannel channel{device};
  Link link{device, {}, {.cq_mode = CqMode::kCollapsed, .receive_depth = 4}};
  CompletionAlarm alarm = link.a.AnnounceSends(channel, 17);
  device::RawSendQueue<Cpu> ring{link.a.View()};
  device::CompletionRing<Cpu> completions{link.a.CompletionView()};
  uint32_t posted = 0;
};

TEST_F(CompletionChannelTest, WakesAThreadThatArmedForTheNextCompletion) {
  alarm.Arm(completions.consumer_index());
  EXPECT_FALSE(IsReadable(channel, kNoTimeMs));
  EXPECT_FALSE(channel.Take().has_value());
  Write();
  ASSERT_TRUE(IsReadable(channel, kLongMs));
  EXPECT_EQ(channel.Take(), 17);
  EXPECT_FALSE(channel.Take().has_value());
  Await();
}

TEST_F(CompletionChannelTest, WakesAtOnceForAnEarlierCompletion) {
  Write();
  Write();
  Await();
  device::CompletionRing<Cpu> ahead(link.a.CompletionView(), completions.consumer_index());
  ASSERT_TRUE(ahead.PollCq(Within()).ok()) << "both have completed, one is taken";
  alarm.Arm(completions.consumer_index());
  ASSERT_TRUE(IsReadable(channel, kLongMs));
  EXPECT_EQ(channel.Take(), 17);
}

TEST_F(CompletionChannelTest, WakesRepeatedly) {
  for (int i = 0; i < 100; ++i) {
    alarm.Arm(completions.consumer_index());
    Write();
    ASSERT_TRUE(IsReadable(channel, kLongMs)) << "round " << i;
    ASSERT_EQ(channel.Take(), 17);
    alarm.OnAnnounced();
    Await();
    completions.UpdateCqDbrRecord();
  }
}

TEST_F(CompletionChannelTest, StaysSilentUnlessArmed) {
  for (int i = 0; i < 10; ++i) {
    Write();
    Await();
  }
  EXPECT_FALSE(IsReadable(channel, kNoTimeMs));
}

TEST_F(CompletionChannelTest, TellsReceivesFromSends) {
  CompletionAlarm receives = link.b.AnnounceReceives(channel, 18);
  device::ReceiveQueue<Cpu> queue(link.b.ReceiveView());
  ASSERT_TRUE(queue.Post({}).ok());
  queue.Submit();
  receives.Arm(queue.consumer_index());
  const mlx5::Be64 doorbell =
      ring.PostWriteImm(posted, link.target.Remote(0), link.source.Local(0), mlx5::ToBe32(1));
  ring.UpdateSendDbrRecord(++posted);
  ring.RingDoorbell(doorbell);
  ASSERT_TRUE(IsReadable(channel, kLongMs));
  EXPECT_EQ(channel.Take(), 18);
  EXPECT_TRUE(queue.Poll(Within()).has_imm);
}

TEST_F(CompletionChannelTest, AnnouncesThatAQueueFailed) {
  link.a.AnnounceFailures(channel, 20);
  link.b.AnnounceFailures(channel, 21);
  FailCq(device, link.a.send_cqn());
  ASSERT_TRUE(IsReadable(channel, kLongMs));
  EXPECT_EQ(channel.Take(), 20);
  FailCq(device, link.b.send_cqn() + 1);  // b's receives: its queues were created last
  ASSERT_TRUE(IsReadable(channel, kLongMs));
  EXPECT_EQ(channel.Take(), 21);
  EXPECT_FALSE(IsReadable(channel, kNoTimeMs));
}

TEST_F(CompletionChannelTest, RejectsCollapsedQueuesAndMissingReceiveQueues) {
  EXPECT_THROW(link.b.AnnounceSends(channel, 1), Error);
  EXPECT_THROW(link.a.AnnounceReceives(channel, 1), Error);
}

}  // namespace
}  // namespace warpverbs::host
