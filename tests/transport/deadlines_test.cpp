#include "deadlines.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "request.hpp"

namespace warpverbs::transport {
namespace {

struct Item : DeadlineNode<Item> {};

Clock::time_point At(int64_t ns) { return Clock::time_point(std::chrono::nanoseconds(ns)); }

TEST(Deadlines, NextIsNeverWhenEmpty) {
  const Deadlines<Item> none;
  EXPECT_EQ(none.first(), nullptr);
  EXPECT_EQ(none.next(), Clock::time_point::max());
}

TEST(Deadlines, IgnoresItemsWithoutADeadline) {
  Deadlines<Item> deadlines;
  Item item;
  deadlines.Add(item, Clock::time_point::max());
  EXPECT_EQ(deadlines.first(), nullptr);
  deadlines.Remove(item);
  EXPECT_EQ(deadlines.first(), nullptr);
}

/// Compares with a sorted map while items are added, removed anywhere, and taken when due. Deadlines repeat.
TEST(Deadlines, StayInOrderUnderAnyAddsAndRemoves) {
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    std::vector<Item> items(300);
    std::multimap<Clock::time_point, Item*> expected;
    Deadlines<Item> deadlines;
    for (int step = 0; step < 5000; ++step) {
      Item& item = items[random() % items.size()];
      if (random() % 8 == 0 && deadlines.first() != nullptr) {
        Item& due = *deadlines.first();
        const auto [from, to] = expected.equal_range(due.deadline);
        expected.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == &due; }));
        deadlines.Remove(due);
      } else if (item.deadline != Clock::time_point::max()) {
        const auto [from, to] = expected.equal_range(item.deadline);
        expected.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == &item; }));
        deadlines.Remove(item);
      } else {
        const auto deadline = At(random() % 200);
        expected.emplace(deadline, &item);
        deadlines.Add(item, deadline);
      }
      ASSERT_EQ(deadlines.next(), expected.empty() ? Clock::time_point::max() : expected.begin()->first);
    }
    while (!expected.empty()) {
      ASSERT_EQ(deadlines.next(), expected.begin()->first);
      const auto [from, to] = expected.equal_range(deadlines.next());
      expected.erase(std::find_if(from, to, [&](const auto& e) { return e.second == deadlines.first(); }));
      deadlines.Remove(*deadlines.first());
    }
    EXPECT_EQ(deadlines.first(), nullptr);
  }
}

/// Uses the orders that are slowest for a linear search, which would exceed the time limit of the test.
TEST(Deadlines, ScaleTo300000Items) {
  constexpr size_t kMany = 300'000;
  std::vector<Item> items(kMany);
  std::vector<int64_t> times(kMany);
  std::iota(times.begin(), times.end(), 0);
  const auto run = [&](bool in_order_of_time) {
    Deadlines<Item> deadlines;
    for (size_t i = 0; i < kMany; ++i) deadlines.Add(items[i], At(times[i]));
    for (size_t i = 0; i < kMany; ++i) {
      Item& item = in_order_of_time ? *deadlines.first() : items[i];
      ASSERT_TRUE(!in_order_of_time || item.deadline == At(static_cast<int64_t>(i)));
      deadlines.Remove(item);
    }
    ASSERT_EQ(deadlines.first(), nullptr);
  };
  for (const bool in_order_of_time : {true, false}) {
    run(in_order_of_time);
    std::reverse(times.begin(), times.end());
    run(in_order_of_time);
    std::shuffle(times.begin(), times.end(), std::mt19937(4));
    run(in_order_of_time);
    std::sort(times.begin(), times.end());
  }
}

TEST(Duration, PrintsInTheLargestUnitThatDividesIt) {
  using namespace std::chrono_literals;
  EXPECT_EQ(ToString(2h), "7200 s");
  EXPECT_EQ(ToString(1500ms), "1500 ms");
  EXPECT_EQ(ToString(20us), "20 us");
  EXPECT_EQ(ToString(1001ns), "1001 ns");
  EXPECT_EQ(ToString(0ns), "0 s");
  EXPECT_EQ(ToString(-3ms), "-3 ms");
}

}  // namespace
}  // namespace warpverbs::transport
