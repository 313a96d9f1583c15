#include "core/mkey.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace softhca {
namespace {

constexpr uint32_t kPd = 7;
constexpr uint64_t kIova = 0x10000;

class MkeyTableTest : public testing::Test {
 protected:
  bool Reaches(uint64_t iova, uint64_t bytes, uint32_t pdn = kPd, uint32_t access = kAccessLocalRead) const {
    Pieces pieces;
    return table.Translate({key, pdn, iova, bytes}, access, pieces);
  }

  std::array<uint8_t, 64> memory{};
  MkeyTable table;
  uint32_t key = table.Add({.pdn = kPd,
                            .access = kAccessLocalWrite | kAccessRemoteRead,
                            .iova = kIova,
                            .memory = memory.data(),
                            .bytes = memory.size()});
};

TEST_F(MkeyTableTest, TranslatesFromIovaToMemory) {
  Pieces pieces;
  ASSERT_TRUE(table.Translate({key, kPd, kIova + 8, 16}, kAccessLocalRead, pieces));
  ASSERT_EQ(pieces.span().size(), 1u);
  const Bytes piece = pieces.span().front();
  EXPECT_EQ(piece.data(), memory.data() + 8);
  EXPECT_EQ(piece.size(), 16u);
}

TEST_F(MkeyTableTest, CountsKeysFromItsStart) {
  MkeyTable same, other{0x12345678};
  EXPECT_EQ(same.Add({}), key);
  const uint32_t first = other.Add({});
  EXPECT_NE(first >> 8, key >> 8);
  EXPECT_EQ(MkeyTable{0x12345678}.Add({}), first);
  MkeyTable last{UINT32_MAX};  // the count wraps
  EXPECT_NE(last.Add({}), last.Add({}));
}

TEST_F(MkeyTableTest, ReachesExactlyTheRegisteredBytes) {
  EXPECT_TRUE(Reaches(kIova, 64));
  EXPECT_TRUE(Reaches(kIova + 63, 1));
  EXPECT_FALSE(Reaches(kIova, 65));
  EXPECT_FALSE(Reaches(kIova + 64, 1));
  EXPECT_FALSE(Reaches(kIova - 1, 2));
}

TEST_F(MkeyTableTest, RefusesRangesWhoseEndWrapsAround) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_FALSE(Reaches(kIova, kMax));
  EXPECT_FALSE(Reaches(kIova + 1, kMax));
  EXPECT_FALSE(Reaches(kMax, 2));
  EXPECT_FALSE(Reaches(kIova + 32, kMax - 31));
}

TEST_F(MkeyTableTest, CoversTheTopOfTheAddressSpace) {
  constexpr uint64_t kTop = std::numeric_limits<uint64_t>::max() - 63;
  const uint32_t top = table.Add({.pdn = kPd, .iova = kTop, .memory = memory.data(), .bytes = memory.size()});
  Pieces pieces;
  EXPECT_TRUE(table.Translate({top, kPd, kTop, 64}, kAccessLocalRead, pieces));
  EXPECT_FALSE(table.Translate({top, kPd, 0, 1}, kAccessLocalRead, pieces));
}

TEST_F(MkeyTableTest, RefusesAnotherProtectionDomain) {
  EXPECT_TRUE(Reaches(kIova, 1, kPd));
  EXPECT_FALSE(Reaches(kIova, 1, kPd + 1));
}

TEST_F(MkeyTableTest, AllowsOnlyTheGrantedAccess) {
  EXPECT_TRUE(Reaches(kIova, 1, kPd, kAccessLocalWrite));
  EXPECT_TRUE(Reaches(kIova, 1, kPd, kAccessRemoteRead));
  EXPECT_FALSE(Reaches(kIova, 1, kPd, kAccessRemoteWrite));
  EXPECT_FALSE(Reaches(kIova, 1, kPd, kAccessRemoteAtomic));
  EXPECT_FALSE(Reaches(kIova, 1, kPd, kAccessRemoteRead | kAccessRemoteAtomic));
}

TEST_F(MkeyTableTest, ForgetsARemovedKey) {
  EXPECT_TRUE(table.Remove(key));
  EXPECT_FALSE(Reaches(kIova, 1));
  EXPECT_FALSE(table.Remove(key));
  EXPECT_EQ(table.size(), 0u);
}

TEST_F(MkeyTableTest, DoesNotReuseARemovedKeyForTheNextRegistration) {
  const Mkey same{.pdn = kPd, .iova = kIova, .memory = memory.data(), .bytes = memory.size()};
  table.Remove(key);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(table.Add(same), key);
  EXPECT_FALSE(Reaches(kIova, 1));
}

TEST_F(MkeyTableTest, KnowsWhichProtectionDomainsAreInUse) {
  EXPECT_TRUE(table.UsesPd(kPd));
  EXPECT_FALSE(table.UsesPd(kPd + 1));
  table.Remove(key);
  EXPECT_FALSE(table.UsesPd(kPd));
}

}  // namespace
}  // namespace softhca
