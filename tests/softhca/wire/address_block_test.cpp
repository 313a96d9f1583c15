#include "wire/address_block.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>

namespace softhca {
namespace {

using testing::SizeIs;

TEST(BlockClaim, ReservesADifferentBlockEachTime) {
  const BlockClaim first = BlockClaim::Reserve(), second = BlockClaim::Reserve();
  EXPECT_NE(first.block(), second.block());
}

TEST(BlockClaim, GivesTheReservedBlockToItsFirstUser) {
  const BlockClaim launcher = BlockClaim::Reserve();
  const BlockClaim first = BlockClaim::Use(launcher.block());
  const BlockClaim second = BlockClaim::Use(launcher.block());
  EXPECT_EQ(first.block(), launcher.block());
  EXPECT_NE(second.block(), launcher.block());
}

TEST(BlockClaim, KeepsTheBlockOfAUserWhenTheLauncherIsGone) {
  std::optional<BlockClaim> launcher = BlockClaim::Reserve();
  const BlockClaim user = BlockClaim::Use(launcher->block());
  launcher.reset();
  EXPECT_NE(BlockClaim::Reserve().block(), user.block());
}

TEST(BlockClaim, PassesABlockFromOneUserToTheNext) {
  const BlockClaim launcher = BlockClaim::Reserve();
  BlockClaim::Use(launcher.block());
  EXPECT_EQ(BlockClaim::Use(launcher.block()).block(), launcher.block());
}

TEST(BlockClaim, IdentifiesTheUserOfABlock) {
  const BlockClaim launcher = BlockClaim::Reserve();
  EXPECT_EQ(BlockClaim::UserOf(launcher.block()), 0u);
  std::optional<BlockClaim> user = BlockClaim::Use(launcher.block());
  const auto first = BlockClaim::UserOf(launcher.block());
  EXPECT_EQ(BlockClaim::UserOf(launcher.block()), first);
  user.reset();
  EXPECT_EQ(BlockClaim::UserOf(launcher.block()), 0u);
  user = BlockClaim::Use(launcher.block());
  const auto second = BlockClaim::UserOf(launcher.block());
  EXPECT_THAT((std::set{first, second, std::optional<uint64_t>(0), std::optional<uint64_t>()}), SizeIs(4));
}

}  // namespace
}  // namespace softhca
