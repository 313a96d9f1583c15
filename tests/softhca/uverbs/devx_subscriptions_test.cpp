#include "uverbs/devx_subscriptions.hpp"

#include <gtest/gtest.h>

namespace softhca::uverbs {
namespace {

/// Returns a channel that is open while the result lives. It must not be dereferenced.
std::shared_ptr<EventPipe> Channel() { return {std::make_shared<int>(), static_cast<EventPipe*>(nullptr)}; }

TEST(DevxSubscriptions, DropsThoseOfClosedChannels) {
  DevxSubscriptions subscriptions;
  for (uint64_t cookie = 0; cookie < 1000; ++cookie) {
    const auto channel = Channel();
    subscriptions.Add({channel, cookie, {0}});
    ASSERT_EQ(subscriptions.size(), 1u);
    ASSERT_EQ(subscriptions.begin()->cookie, cookie);
  }
}

TEST(DevxSubscriptions, KeepsThoseOfOpenChannelsInOrder) {
  DevxSubscriptions subscriptions;
  const auto first = Channel(), last = Channel();
  auto closed = Channel();
  subscriptions.Add({first, 1, {7}});
  subscriptions.Add({closed, 2, {7}});
  closed.reset();
  subscriptions.Add({last, 3, {7}});
  std::vector<uint64_t> cookies;
  for (const DevxSubscription& one : subscriptions) cookies.push_back(one.cookie);
  EXPECT_EQ(cookies, (std::vector<uint64_t>{1, 3}));
}

}  // namespace
}  // namespace softhca::uverbs
