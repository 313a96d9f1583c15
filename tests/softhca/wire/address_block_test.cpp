#include "wire/address_block.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "wire/frame.hpp"
#include "wire/media/abstract_name.hpp"
#include "wire/media/neighbour_medium.hpp"
#include "wire/media/socket.hpp"

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

/// Binds the first port's address, as a forked child of a process that is gone still does.
Descriptor Bind(uint32_t block) {
  Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress at = ToSocketAddress(address_block::Ipv4GidOf(block, 0, 1), kRoceUdpPort);
  EXPECT_EQ(bind(socket.get(), &at.any, at.bytes), 0);
  return socket;
}

TEST(BlockClaim, ReservesNoBlockWhoseAddressesAreBound) {
  std::optional<BlockClaim> claim = BlockClaim::Reserve();
  const uint32_t block = claim->block();
  const Descriptor orphan = Bind(block);
  claim.reset();
  EXPECT_NE(BlockClaim::Reserve().block(), block);
}

TEST(BlockClaim, UsesAnotherBlockWhereTheReservedOneIsBound) {
  const BlockClaim launcher = BlockClaim::Reserve();
  const Descriptor orphan = Bind(launcher.block());
  EXPECT_NE(BlockClaim::Use(launcher.block()).block(), launcher.block());
}

/// Takes the name of the last port's MAC, as a forked child of a process on InfiniBand that is gone still
/// does.
NeighbourMedium TakeMac(uint32_t block) {
  using namespace address_block;
  return NeighbourMedium({MacOf(block, kDevices - 1, kPorts)}, mlx5::PortType::kInfiniBand);
}

TEST(BlockClaim, ReservesNoBlockWithATakenMac) {
  std::optional<BlockClaim> claim = BlockClaim::Reserve();
  const uint32_t block = claim->block();
  const NeighbourMedium orphan = TakeMac(block);
  claim.reset();
  EXPECT_NE(BlockClaim::Reserve().block(), block);
}

TEST(BlockClaim, UsesAnotherBlockWhereTheReservedOneHasATakenMac) {
  const BlockClaim launcher = BlockClaim::Reserve();
  const NeighbourMedium orphan = TakeMac(launcher.block());
  EXPECT_NE(BlockClaim::Use(launcher.block()).block(), launcher.block());
}

/// Returns the name by which another user reserves a block. The kernel lets this one take it, too.
std::string NameOfAnother(uint32_t block) {
  return "softhca/" + std::to_string(getuid() + 1) + "/block/" + std::to_string(block);
}

Descriptor ClaimForAnother(uint32_t block) { return TakeName(NameOfAnother(block)); }

TEST(BlockClaim, LeavesTheBlocksOfOtherUsersToThem) {
  const uint32_t block = BlockClaim::Reserve().block();
  const Descriptor other = ClaimForAnother(block);
  EXPECT_NE(BlockClaim::Reserve().block(), block);
}

TEST(BlockClaim, UserThatClaimsAllBlocksKeepsNoOtherFromStarting) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit many{before.rlim_max, before.rlim_max};
  if (before.rlim_max < 3000) GTEST_SKIP() << "too few descriptors are allowed";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &many), 0);
  std::vector<Descriptor> others;
  for (uint32_t block = address_block::kFirst; block <= address_block::kLast; ++block)
    others.push_back(ClaimForAnother(block));
  EXPECT_NO_THROW(BlockClaim::Reserve());
  others.clear();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
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

TEST(BlockClaim, IdentifiesAUserOfABlockInAProgramOfAnotherUser) {
  const uint32_t block = BlockClaim::Reserve().block();
  const Descriptor reservation = ClaimForAnother(block);
  EXPECT_EQ(BlockClaim::UserOf(block), 0u) << "a launcher does not use the block";
  Descriptor use = TakeName(NameOfAnother(block) + "/used");
  const auto user = BlockClaim::UserOf(block);
  EXPECT_THAT((std::set{user, std::optional<uint64_t>(0), std::optional<uint64_t>()}), SizeIs(3));
  {
    const Descriptor later = TakeName(OwnName("block/" + std::to_string(block) + "/used"));
    EXPECT_EQ(BlockClaim::UserOf(block), user) << "the later claim of a block changes nothing";
  }
  use = Descriptor();
  EXPECT_EQ(BlockClaim::UserOf(block), 0u);
}

}  // namespace
}  // namespace softhca
