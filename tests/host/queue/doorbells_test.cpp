#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "host/endpoint/link.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/error.hpp"

/// Doorbell modes: the same calls carry the same data in each mode.
namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class Doorbells : public testing::Test {
 protected:
  Device device_;
};

TEST_F(Doorbells, AreRungByThePosterByDefault) {
  Link link(device_);
  EXPECT_EQ(link.a.doorbell_mode(), DoorbellMode::kGpu);
  EXPECT_THAT(link.a.Describe(),
              HasSubstr("; rung by the poster (the CPU rings, and the register is mapped)"));
}

TEST_F(Doorbells, NeedNoRecordIfTheHostPosts) {
  for (const DoorbellMode mode : {DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    const Endpoint endpoint(device_, {.doorbell = mode});
    EXPECT_EQ(endpoint.View().dbrec == nullptr, mode == DoorbellMode::kHostPosts)
        << "the host writes the record";
  }
}

TEST_F(Doorbells, CarryAllDataPastTheEndOfTheQueueInEachMode) {
  for (const DoorbellMode doorbell :
       {DoorbellMode::kGpu, DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    for (const CqMode mode : {CqMode::kCollapsed, CqMode::kRing}) {
      Link link(device_, {.depth = 4, .cq_mode = mode, .doorbell = doorbell});
      EXPECT_EQ(link.a.doorbell_mode(), doorbell);
      link.Connect();
      EXPECT_TRUE(link.Write(200).ok()) << ToString(doorbell);
    }
  }
}

TEST_F(Doorbells, WorkAfterAResetInEachMode) {
  for (const DoorbellMode mode : {DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    Link link(device_, {.depth = 8, .doorbell = mode});
    for (uint32_t cycle = 0; cycle < 20; ++cycle) {
      link.Connect();
      ASSERT_TRUE(link.Write(1 + cycle % 5).ok()) << ToString(mode) << ", cycle " << cycle;
      if (cycle % 2 == 0) link.PostWrongWrite();
      link.a.Reset();
      link.b.Reset();
    }
  }
}

TEST_F(Doorbells, AreServedByOneThreadForManyEndpoints) {
  DoorbellThread thread;
  Link rings(device_, {.depth = 8, .doorbell = DoorbellMode::kHostProxy, .doorbell_thread = &thread});
  Link posts(device_, {.depth = 8, .doorbell = DoorbellMode::kHostPosts, .doorbell_thread = &thread});
  rings.Connect();
  posts.Connect();
  std::jthread kernel([&] { EXPECT_TRUE(rings.Write(500).ok()); });
  EXPECT_TRUE(posts.Write(500).ok());
  for (int i = 0; i < 20; ++i) {
    Link guest(device_, {.doorbell = DoorbellMode::kHostProxy, .doorbell_thread = &thread});
    guest.Connect();
    EXPECT_TRUE(guest.Write(3).ok());
  }
}

TEST_F(Doorbells, MayGoThroughTheHostOnASharedQueue) {
  for (const DoorbellMode mode : {DoorbellMode::kHostProxy, DoorbellMode::kHostPosts}) {
    Link link(device_, {.depth = 8, .doorbell = mode});
    link.Connect();
    constexpr size_t kPosters = 3, kWrites = 500;
    std::vector<std::jthread> posters;
    for (size_t poster = 0; poster < kPosters; ++poster) {
      posters.emplace_back([&link, poster] {
        device::SendQueue<Cpu, device::Shared> queue(link.a.View());
        for (size_t i = 1; i <= kWrites; ++i) {
          link.source[poster] = i;
          const device::Posted posted =
              queue.Post(device::Write(link.target.Remote(poster), link.source.Local(poster)), Within());
          ASSERT_TRUE(posted.status.ok());
          ASSERT_TRUE(queue.Wait(posted.ticket, Within()).ok());
          ASSERT_EQ(link.target[poster], i);
        }
      });
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
