#include "notification_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

namespace warpverbs::transport {
namespace {

using Kind = ImmediateData::Kind;

TEST(NotificationOrder, NotifiesWhenAllPartsHaveArrived) {
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

TEST(NotificationOrder, SkipsACancelledWrite) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 1}), 0);
  EXPECT_EQ(order.Add({Kind::kCancelledPart, 2, 0}), 1) << "the second write notifies";
}

TEST(NotificationOrder, RefusesImpossibleParts) {
  NotificationOrder order;
  EXPECT_EQ(order.Add({Kind::kPart, 0, 0}), std::nullopt) << "a write has parts";
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 3, 0}), std::nullopt) << "all parts have the same count";
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), 1);
  EXPECT_EQ(order.Add({Kind::kPart, 2, 0}), std::nullopt) << "the write has notified";
  EXPECT_EQ(order.Add({Kind::kPart, 2, NotificationOrder::kMaxAhead + 1}), std::nullopt) << "far ahead";
  EXPECT_EQ(order.Add({Kind::kPart, 1, 5}), 0);
  EXPECT_EQ(order.Add({Kind::kPart, 1, 5}), std::nullopt) << "the write is complete";
}

/// Writes have any number of parts, some are cancelled, and parts arrive in any order. At any time the number
/// of notifications equals the number of complete, uncancelled writes before the first incomplete one.
TEST(NotificationOrder, ReleasesCompleteWritesInAnyArrivalOrder) {
  struct Write {
    uint8_t parts;
    bool cancelled;
    uint8_t arrived = 0;
  };
  constexpr uint32_t kWrites = 3000, kWindow = 300;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    NotificationOrder order;
    std::vector<Write> writes;
    for (uint32_t i = 0; i < kWrites; ++i) {
      writes.push_back({static_cast<uint8_t>(1 + random() % ImmediateData::kMaxParts), random() % 4 == 0});
    }
    std::multiset<uint32_t> outstanding;  // a sequence number for each part
    uint32_t next = 0, first = 0;
    uint64_t left = 0, expected = 0;
    while (next < kWrites || !outstanding.empty()) {
      while (next < kWrites && next - first < kWindow && (outstanding.size() < 2000 || outstanding.empty())) {
        for (int part = 0; part < writes[next].parts; ++part) outstanding.insert(next);
        ++next;
      }
      const auto chosen = std::next(outstanding.begin(),
                                    static_cast<long>(random() % std::min<size_t>(outstanding.size(), 64)));
      Write& write = writes[*chosen];
      const bool cancel = write.cancelled && write.arrived % 2 == 0;
      const auto leaving = order.Add(
          {cancel ? Kind::kCancelledPart : Kind::kPart, write.parts, *chosen & ImmediateData::kSequenceMask});
      ASSERT_TRUE(leaving.has_value());
      left += *leaving;
      ++write.arrived;
      outstanding.erase(chosen);
      while (first < next && writes[first].arrived == writes[first].parts) {
        expected += writes[first].cancelled ? 0 : 1;
        ++first;
      }
      ASSERT_EQ(left, expected) << "seed " << seed;
    }
    EXPECT_EQ(first, kWrites);
  }
}

TEST(NotificationOrder, ContinuesWhenTheSequenceNumberWraps) {
  NotificationOrder order;
  uint64_t left = 0;
  for (uint32_t i = 0; i < ImmediateData::kSequenceMask + 10; ++i) {
    left += order.Add({Kind::kPart, 1, i & ImmediateData::kSequenceMask}).value_or(0);
  }
  EXPECT_EQ(left, ImmediateData::kSequenceMask + 10);
}

TEST(ImmediateData, DecodesWhatItEncodes) {
  for (const Kind kind : {Kind::kPart, Kind::kCancelledPart, Kind::kHello, Kind::kReady}) {
    for (const uint32_t sequence : {0u, 1u, 0x800000u, ImmediateData::kSequenceMask}) {
      for (const uint8_t parts : {uint8_t{0}, uint8_t{1}, uint8_t{32}, uint8_t{ImmediateData::kMaxParts}}) {
        const ImmediateData imm{kind, parts, sequence};
        EXPECT_EQ(ImmediateData::Decode(imm.Encode()), imm);
      }
    }
  }
}

}  // namespace
}  // namespace warpverbs::transport
