#include "notification_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace warpverbs::transport {
namespace {

using Kind = Announcement::Kind;

TEST(NotificationOrder, NotifiesWhenAllPartsHaveCome) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 3, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 3, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 3, 0}), 1);
}

TEST(NotificationOrder, KeepsTheOrderOfTheWrites) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 1, 2}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 1}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 0}), 3);
}

TEST(NotificationOrder, PassesOverAWriteThatWasCutShort) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 1}), 0);
  EXPECT_EQ(order.Add({Kind::kVoidPart, 2, 0}), 1) << "that of the second write";
}

TEST(NotificationOrder, RefusesWhatNoPeerSends) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 0, 0}), std::nullopt) << "of no parts";
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 3, 0}), std::nullopt) << "of another number of parts";
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 1);
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), std::nullopt) << "of the past";
  EXPECT_EQ(order.Add({Kind::kPart, 2, NotificationOrder::kMaxAhead + 1}), std::nullopt) << "far ahead";
  EXPECT_EQ(order.Add({Kind::kPart, 1, 5}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 5}), std::nullopt) << "one part too many";
}

/// Writes in any number of parts, some cut short, arriving over lanes of any speed: at any time as many
/// notifications have left as there are whole writes that follow each other from the first.
TEST(NotificationOrder, LetsGoExactlyWhatIsWholeWhateverTheOrder) {
  struct Write {
    uint8_t parts;
    bool is_void;
    uint8_t arrived = 0;
  };
  constexpr uint32_t kWrites = 3000, kWindow = 300;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    NotificationOrder order;
    std::vector<Write> writes;
    for (uint32_t i = 0; i < kWrites; ++i) {
      writes.push_back({static_cast<uint8_t>(1 + random() % Announcement::kMaxParts), random() % 4 == 0});
    }
    std::multiset<uint32_t> under_way;  // a sequence number for each part
    uint32_t next = 0, first = 0;
    uint64_t left = 0, expected = 0;
    while (next < kWrites || !under_way.empty()) {
      while (next < kWrites && next - first < kWindow && (under_way.size() < 2000 || under_way.empty())) {
        for (int part = 0; part < writes[next].parts; ++part) under_way.insert(next);
        ++next;
      }
      const auto chosen =
          std::next(under_way.begin(), static_cast<long>(random() % std::min<size_t>(under_way.size(), 64)));
      Write& write = writes[*chosen];
      const bool cut = write.is_void && write.arrived % 2 == 0;
      const auto leaving = order.Add(
          {cut ? Kind::kVoidPart : Kind::kPart, write.parts, *chosen & Announcement::kSequenceMask});
      ASSERT_TRUE(leaving.has_value());
      left += *leaving;
      ++write.arrived;
      under_way.erase(chosen);
      while (first < next && writes[first].arrived == writes[first].parts) {
        expected += writes[first].is_void ? 0 : 1;
        ++first;
      }
      ASSERT_EQ(left, expected) << "seed " << seed;
    }
    EXPECT_EQ(first, kWrites);
  }
}

TEST(NotificationOrder, GoesOnWhereTheSequenceNumberWraps) {
  NotificationOrder order;
  uint64_t left = 0;
  for (uint32_t i = 0; i < Announcement::kSequenceMask + 10; ++i) {
    left += order.Add({Kind::kPart, 1, i & Announcement::kSequenceMask}).value_or(0);
  }
  EXPECT_EQ(left, Announcement::kSequenceMask + 10);
}

TEST(Announcement, SurvivesItsThirtyTwoBits) {
  for (const Kind kind : {Kind::kPart, Kind::kVoidPart, Kind::kHello, Kind::kReady}) {
    for (const uint32_t sequence : {0u, 1u, 0x800000u, Announcement::kSequenceMask}) {
      for (const uint8_t parts : {uint8_t{0}, uint8_t{1}, uint8_t{32}, uint8_t{Announcement::kMaxParts}}) {
        const Announcement announcement{kind, parts, sequence};
        EXPECT_EQ(Announcement::Decode(announcement.Encode()), announcement);
      }
    }
  }
}

}  // namespace
}  // namespace warpverbs::transport
