#include "warpverbs/host/shared_completions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include "host/endpoint/dead_drainer.hpp"
#include "host/endpoint/link.hpp"
#include "host/log/refusal.hpp"
#include "queue/completion_queue.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::host {
namespace {

using testing::HasSubstr;

class SharedCompletionsTest : public testing::Test {
 protected:
  std::string WhyRefused(SharedCompletions& ring, const EndpointConfig& asked) const {
    EndpointConfig config = asked;
    config.completions = &ring;
    return host::WhyRefused([&] { Endpoint(device_, config); });
  }

  Device device_;
};

TEST_F(SharedCompletionsTest, PointsViewsToOneRingByUserIndex) {
  SharedCompletions ring(device_, {.depth = 100, .max_queues = 3});
  EXPECT_EQ(ring.depth(), 128) << "rounded up";
  const Endpoint a(device_, {.depth = 8, .completions = &ring}),
      b(device_, {.depth = 8, .completions = &ring});
  EXPECT_EQ(a.send_cqn(), ring.cqn());
  EXPECT_EQ(b.send_cqn(), ring.cqn());
  EXPECT_EQ(a.View().control->ring, &ring.control());
  EXPECT_EQ(a.View().flags & ~device::kWriteCombining, device::kSharedCq | device::kNeedsSystemScope);
  EXPECT_EQ(a.View().cqe, a.View().control->cqe);
  EXPECT_EQ(ring.control().queues[0], a.View().control);
  EXPECT_EQ(ring.control().queues[1], b.View().control);
  EXPECT_EQ(ring.control().queues[2], nullptr);
  EXPECT_EQ(ring.control().cq.depth, 128);
  EXPECT_EQ(a.CompletionView().cqe, ring.control().cq.cqe);
  EXPECT_THAT(b.Describe(), HasSubstr("a ring of 128 CQEs that queues share, as user index 1"));
}

TEST_F(SharedCompletionsTest, RejectsQueuesThatDoNotFit) {
  SharedCompletions ring(device_, {.depth = 32, .max_queues = 2});
  const Endpoint first(device_, {.depth = 16, .completions = &ring});
  EXPECT_EQ(WhyRefused(ring, {.depth = 32}),
            "Cannot create an endpoint on shared completions: its send queue has 32 WQEBBs, and only 16 of "
            "the ring's 32 CQEs are free. Make the ring as deep as the sum of its queues.");
  const Endpoint second(device_, {.depth = 8, .completions = &ring});
  EXPECT_EQ(WhyRefused(ring, {.depth = 8}),
            "Cannot create an endpoint on shared completions: the ring has 2 queues already. Raise "
            "SharedCompletionsConfig::max_queues.");
  const Device other;
  try {
    const Endpoint stranger(other, {.depth = 8, .completions = &ring});
    FAIL() << "accepted a ring of another device";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "Cannot create an endpoint on shared completions: they belong to another Device object. Create "
        "both on the same one.");
  }
}

TEST_F(SharedCompletionsTest, RejectsOptionsOutOfRange) {
  EXPECT_THROW(SharedCompletions(device_, {.depth = 0}), Error);
  EXPECT_THROW(SharedCompletions(device_, {.depth = device_.capabilities().max_cqes + 1}), Error);
  EXPECT_THROW(SharedCompletions(device_, {.max_queues = 65537}), Error);
  try {
    const SharedCompletions ring(device_, {.max_queues = 0});
    FAIL() << "accepted no queues";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), ("Cannot create a ring of completions for 0 queues on " + device_.name() +
                                ": the number is out of range. Ask for 1 to 65536 queues.")
                                   .c_str());
  }
}

TEST_F(SharedCompletionsTest, ReusesPlacesOfDestroyedEndpoints) {
  SharedCompletions ring(device_, {.depth = 16, .max_queues = 2});
  const Endpoint keeper(device_, {.depth = 8, .completions = &ring});
  for (int i = 0; i < 10; ++i) {
    const Endpoint guest(device_, {.depth = 8, .completions = &ring});
    EXPECT_EQ(ring.control().queues[1], guest.View().control);
  }
  EXPECT_EQ(ring.control().queues[1], nullptr);
}

TEST_F(SharedCompletionsTest, DeliversEachQueuesCompletions) {
  SharedCompletions ring(device_, {.depth = 32, .max_queues = 3});
  Link links[] = {Link(device_, {.depth = 8, .completions = &ring}),
                  Link(device_, {.depth = 16, .completions = &ring}),
                  Link(device_, {.depth = 1, .completions = &ring})};
  std::vector<std::jthread> kernels;
  for (Link& link : links) {
    link.Connect();
    kernels.emplace_back([&link] { EXPECT_TRUE(link.Write(2000).ok()); });
  }
}

TEST_F(SharedCompletionsTest, LimitsAFailureToTheFailedQueue) {
  SharedCompletions ring(device_);
  Link good(device_, {.completions = &ring}), bad(device_, {.completions = &ring});
  good.Connect();
  bad.Connect();
  bad.PostWrongWrite();
  EXPECT_TRUE(good.Write(100).ok());
  EXPECT_TRUE(Await([&] { return bad.a.LastError().has_value(); }));
  EXPECT_FALSE(good.a.LastError().has_value());
  EXPECT_EQ(bad.Write(1).syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_TRUE(good.Write(100).ok());
}

TEST_F(SharedCompletionsTest, GivesANewQueueNothingOfThePreviousOne) {
  SharedCompletions ring(device_, {.depth = 16, .max_queues = 1});
  for (int round = 0; round < 20; ++round) {
    {
      Link gone(device_, {.depth = 16, .completions = &ring});
      gone.Connect();
      Queue queue(gone.a.View());
      gone.source[0] = 1;
      for (int i = 0; i <= round % 8; ++i) {
        ASSERT_TRUE(queue.Post(device::Write(gone.target.Remote(0), gone.source.Local(0))).status.ok());
      }
      gone.PostWrongWrite();
      ASSERT_TRUE(Await([&] { return gone.a.State() == mlx5::QpState::kError; }));
    }  // destroyed with all its completions still on the ring
    Link next(device_, {.depth = 16, .completions = &ring});
    next.Connect();
    EXPECT_FALSE(next.a.LastError().has_value());
    ASSERT_TRUE(next.Write(3).ok()) << "round " << round;
  }
}

TEST_F(SharedCompletionsTest, AllowsEndpointsToComeAndGo) {
  SharedCompletions ring(device_, {.depth = 32, .max_queues = 2});
  Link steady(device_, {.depth = 8, .completions = &ring});
  steady.Connect();
  std::atomic<bool> done = false;
  std::jthread kernel([&] {
    while (!done) ASSERT_TRUE(steady.Write(50).ok());
  });
  for (int i = 0; i < 20; ++i) {
    Link guest(device_, {.depth = 16, .completions = &ring});
    guest.Connect();
    EXPECT_TRUE(guest.Write(5).ok());
  }
  done = true;
}

TEST_F(SharedCompletionsTest, KeepsAPlaceWhoseCompletionsAreInUse) {
  SharedCompletions ring(device_, {.depth = 16, .max_queues = 1});
  {
    const Endpoint endpoint(device_, {.depth = 8, .completions = &ring});
    Cpu::Store(&ring.control().consumer,
               device::kRingLocked);  // like a poster that was killed while it held the lock
  }
  EXPECT_EQ(ring.control().queues[0], nullptr);
  EXPECT_THAT(WhyRefused(ring, {.depth = 8}), HasSubstr("the ring has 1 queues already"));
  ring.Recover();
  EXPECT_EQ(Cpu::Load(&ring.control().consumer), 0);
  EXPECT_EQ(WhyRefused(ring, {.depth = 16}), kAccepted);
}

TEST_F(SharedCompletionsTest, FreesNoPlaceIfAPosterStillDrains) {
  SharedCompletions ring(device_, {.depth = 16, .max_queues = 1});
  const auto leave_a_place = [&] {
    const Endpoint endpoint(device_, {.depth = 8, .completions = &ring});
    Cpu::Store(&ring.control().consumer, device::kRingLocked);
  };
  leave_a_place();
  {
    std::atomic<bool> done = false;
    const std::jthread poster([&] {  // takes the lock again and again, and keeps it
      while (!done) Cpu::Store(&ring.control().consumer, device::kRingLocked);
    });
    const auto fails = [&] {
      const std::string sentence = SentenceOf([&] { ring.Recover(); });
      if (sentence.empty()) {  // the poster was too late
        leave_a_place();
        return false;
      }
      EXPECT_THAT(sentence, testing::StartsWith("Cannot recover a ring of shared completions: "));
      return true;
    };
    EXPECT_TRUE(Await(fails));
    done = true;
  }
  EXPECT_THAT(WhyRefused(ring, {.depth = 8}), HasSubstr("the ring has 1 queues already"));
  ring.Recover();
  EXPECT_EQ(WhyRefused(ring, {.depth = 16}), kAccepted);
}

TEST_F(SharedCompletionsTest, RecoversTheNewestCompletionOfEachQueueAfterAWrap) {
  SharedCompletions ring(device_, {.depth = 16, .max_queues = 2});
  Link a(device_, {.depth = 8, .completions = &ring}), b(device_, {.depth = 8, .completions = &ring});
  a.Connect();
  b.Connect();
  ASSERT_TRUE(a.Write(7).ok());
  const uint64_t stuck = Cpu::Load(&ring.control().consumer);
  ASSERT_TRUE(a.Write(15).ok());
  ASSERT_TRUE(b.Write(5).ok());
  Cpu::Store(&ring.control().consumer,
             stuck | device::kRingLocked);  // 20 completions ago, on a ring of 16
  for (Link* const link : {&a, &b}) {
    std::memset(link->a.View().control->cqe, kInvalidCqe, sizeof link->a.View().control->cqe);
  }
  ring.Recover();
  EXPECT_EQ(Cpu::Load(&ring.control().consumer), stuck + 20);
  EXPECT_EQ(a.a.View().cqe[61], 21) << "the newest WQE's index";
  EXPECT_EQ(b.a.View().cqe[61], 4);
  EXPECT_TRUE(a.Write(40).ok());
  EXPECT_TRUE(b.Write(40).ok());
}

TEST_F(SharedCompletionsTest, RecoversHoweverFarTheQueuesGotBehindADeadDrainer) {
  for (const uint32_t stores : {0U, 1U}) {
    for (uint32_t more = 0; more <= 4; ++more) {
      SCOPED_TRACE(std::to_string(stores) + " stores, " + std::to_string(more) + " more");
      SharedCompletions ring(device_, {.depth = 4, .max_queues = 1});
      Link link(device_, {.depth = 4, .completions = &ring});
      link.Connect();
      const uint32_t delivered = LeaveADeadDrainer(link, stores);
      uint32_t posted = 4;
      for (; posted < 4 + more && PostWrite(link).ok(); ++posted) {
      }
      EXPECT_EQ(posted, 4 + std::min(more, delivered)) << "as many as the dead drainer made room for";
      ASSERT_TRUE(AwaitCompletions(ring.control().cq, posted));
      ring.Recover();
      EXPECT_EQ(Cpu::Load(&ring.control().consumer), posted);
      ASSERT_TRUE(Queue(link.a.View()).Flush(Within()).ok());
      EXPECT_TRUE(link.Write(40).ok());
    }
  }
}

}  // namespace
}  // namespace warpverbs::host
