#include "queue/free_space.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace warpverbs::host {
namespace {

constexpr size_t kGrain = FreeSpace::kGrain;

TEST(FreeSpace, PlacesNeverOverlapOrLeaveTheRange) {
  constexpr size_t kBytes = 64 * kGrain + 5;
  FreeSpace space(kBytes);
  std::map<size_t, size_t> taken;  // bytes by offset
  std::mt19937 random(42);
  size_t refusals = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (taken.empty() || random() % 2 == 0) {
      const size_t bytes = 1 + random() % (8 * kGrain);
      const std::optional<size_t> offset = space.Take(bytes);
      if (!offset) {
        ++refusals;
        continue;
      }
      ASSERT_EQ(*offset % kGrain, 0);
      ASSERT_LE(*offset + bytes, kBytes);
      const auto after = taken.lower_bound(*offset);
      if (after != taken.end()) {
        ASSERT_LE(*offset + bytes, after->first);
      }
      if (after != taken.begin()) {
        const auto before = std::prev(after);
        ASSERT_LE(before->first + before->second, *offset);
      }
      taken.emplace(*offset, bytes);
    } else {
      const auto gone = std::next(taken.begin(), static_cast<ptrdiff_t>(random() % taken.size()));
      space.Give(gone->first);
      taken.erase(gone);
    }
  }
  EXPECT_GT(refusals, 0) << "the range was never full";
  for (const auto& [offset, bytes] : taken) space.Give(offset);
  EXPECT_EQ(space.used(), 0);
  EXPECT_EQ(space.Take(64 * kGrain), 0) << "all of it is free again";
}

TEST(FreeSpace, RejectsMoreThanItHas) {
  FreeSpace space(2 * kGrain);
  EXPECT_FALSE(space.Take(2 * kGrain + 1));
  EXPECT_EQ(space.Take(1), 0);
  EXPECT_EQ(space.Take(kGrain), kGrain);
  EXPECT_FALSE(space.Take(1));
  EXPECT_EQ(space.used(), 2 * kGrain);
  space.Give(0);
  EXPECT_EQ(space.Take(kGrain), 0) << "a freed place is used again";
  EXPECT_FALSE(FreeSpace(kGrain - 1).Take(1));
}

}  // namespace
}  // namespace warpverbs::host
