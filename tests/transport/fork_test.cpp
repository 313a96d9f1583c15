#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "common/fork_while_in_use.hpp"
#include "common/run_in_child.hpp"
#include "nics.hpp"
#include "pair.hpp"
#include "warpverbs/transport/event_loop.hpp"

/// A forked child may destroy its copies of transports and loops. Those of the parent continue.
namespace warpverbs::transport {
namespace {

using tests::RunInChild;

TEST(Fork, ChildDestroysALoop) {
  auto loop = std::make_unique<EventLoop>();
  for (int times = 0; times < 10; ++times) RunInChild([&] { loop.reset(); });
}

/// A loop that never sleeps holds its transport's lock most of the time, so some forks happen while it does.
TEST(Fork, ChildDestroysTransportsWhoseLoopsAreAtWork) {
  auto pair = std::make_unique<Pair>(TransportConfig{.spin = std::chrono::hours(1)});
  pair->Connect();
  std::optional<Buffer> source(4096), target(4096);
  const auto write = [&] {
    return ResultOf(pair->a.Write(source->memory.CreateView(), target->memory.Remote()));
  };
  ASSERT_SUCCESS(write());
  for (int times = 0; times < 20; ++times) {
    RunInChild([&] {
      pair.reset();
      source.reset();
      target.reset();
    });
  }
  EXPECT_SUCCESS(write());
}

/// A child opens its own NICs while another thread of the parent asks for those of the parent.
TEST(Fork, ChildOpensItsOwnNics) {
  const auto nics = Nics::Of(0, 1);
  tests::ForkWhileInUse([] { Nics::Of(0, 1); }, [&] { EXPECT_NE(Nics::Of(0, 1), nics); });
}

}  // namespace
}  // namespace warpverbs::transport
