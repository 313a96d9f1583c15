#include <gtest/gtest.h>

#include "count_allocations.hpp"
#include "pair.hpp"

/// A write in steady state allocates nothing, in no thread.
namespace warpverbs::transport {
namespace {

struct Rounds {
  void operator()(const Status& status) {
    EXPECT_SUCCESS(status);
    if (--*left == 0) return done->set_value();
    pair->b.WaitForWrite({}, [](const Status& arrived) { EXPECT_SUCCESS(arrived); });
    pair->a.Write(*view, *remote, {.notify = true}, *this);
  }

  Pair* pair;
  const RdmaMemory::View* view;
  const RdmaRemoteBuffer* remote;
  int* left;
  std::promise<void>* done;
};

TEST(Allocations, OfWritesAndNotificationsAreNoneOnceAllIsWarm) {
  EventLoop loop;
  Pair pair({}, &loop);
  pair.Connect();
  Buffer from(8192), to(8192);
  const auto view = from.memory.CreateView();
  const RdmaRemoteBuffer remote = to.memory.Remote();
  const auto run = [&](int rounds) {
    std::promise<void> done;
    int left = rounds + 1;
    Rounds{&pair, &view, &remote, &left, &done}({});
    EXPECT_EQ(done.get_future().wait_for(kLong), std::future_status::ready);
  };
  run(2000);
  const uint64_t before = Allocations();
  run(10);
  const uint64_t ten = Allocations() - before;  // what a run costs whatever its length: its promise
  run(1010);
  EXPECT_EQ(Allocations() - before - ten, ten) << "a thousand writes more, and no allocation more";
}

}  // namespace
}  // namespace warpverbs::transport
