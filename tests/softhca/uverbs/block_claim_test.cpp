#include "uverbs/block_claim.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace softhca {
namespace {

TEST(BlockClaim, IsNobodyElses) {
  const BlockClaim first = BlockClaim::Reserve(), second = BlockClaim::Reserve();
  EXPECT_NE(first.block(), second.block());
}

TEST(BlockClaim, FirstUserGetsWhatTheLauncherReserved) {
  const BlockClaim launcher = BlockClaim::Reserve();
  const BlockClaim first = BlockClaim::Use(launcher.block());
  const BlockClaim second = BlockClaim::Use(launcher.block());
  EXPECT_EQ(first.block(), launcher.block());
  EXPECT_NE(second.block(), launcher.block());
}

TEST(BlockClaim, UserKeepsItWhenTheLauncherIsGone) {
  std::optional<BlockClaim> launcher = BlockClaim::Reserve();
  const BlockClaim user = BlockClaim::Use(launcher->block());
  launcher.reset();
  EXPECT_NE(BlockClaim::Reserve().block(), user.block());
}

TEST(BlockClaim, UserThatEndsLeavesItToTheNext) {
  const BlockClaim launcher = BlockClaim::Reserve();
  BlockClaim::Use(launcher.block());
  EXPECT_EQ(BlockClaim::Use(launcher.block()).block(), launcher.block());
}

}  // namespace
}  // namespace softhca
