#include "pieces.hpp"

#include <gtest/gtest.h>

#include <map>

namespace warpverbs::transport {
namespace {

TEST(Pieces, CoverTheTransferOnceAndInOrder) {
  for (const uint64_t bytes : {0ull, 1ull, 99ull, 100ull, 101ull, 1000ull, 12345ull}) {
    for (const uint32_t channels : {1u, 2u, 5u, 32u}) {
      const Pieces pieces{
          .bytes = bytes, .piece_bytes = 100, .channels = channels, .first_channel = channels - 1};
      uint64_t covered = 0;
      for (uint64_t i = 0; i < pieces.count(); ++i) {
        EXPECT_EQ(pieces.Offset(i), covered);
        EXPECT_LE(pieces.Size(i), 100u);
        covered += pieces.Size(i);
      }
      EXPECT_EQ(covered, bytes);
    }
  }
}

TEST(Pieces, HaveOneLastPieceOnEachChannel) {
  for (uint64_t count = 1; count < 20; ++count) {
    for (const uint32_t channels : {1u, 3u, 8u}) {
      const Pieces pieces{
          .bytes = count, .piece_bytes = 1, .channels = channels, .first_channel = 1 % channels};
      std::map<uint32_t, uint64_t> last;
      for (uint64_t i = 0; i < pieces.count(); ++i) last[pieces.Channel(i)] = i;
      EXPECT_EQ(last.size(), pieces.channels_used());
      for (uint64_t i = 0; i < pieces.count(); ++i) {
        EXPECT_EQ(pieces.IsLastOnChannel(i), last[pieces.Channel(i)] == i) << i << " of " << count;
      }
    }
  }
}

TEST(Pieces, AreOneEmptyPieceForAnEmptyTransfer) {
  const Pieces pieces{.piece_bytes = 100, .channels = 4};
  EXPECT_EQ(pieces.count(), 1u);
  EXPECT_EQ(pieces.Size(0), 0u);
  EXPECT_TRUE(pieces.IsLastOnChannel(0));
}

TEST(Pieces, CoverTransfersOverFourGibibytes) {
  const Pieces pieces{.bytes = (uint64_t{1} << 40) + 1, .piece_bytes = 1 << 20, .channels = 2};
  EXPECT_EQ(pieces.count(), (uint64_t{1} << 20) + 1);
  EXPECT_EQ(pieces.Size(pieces.count() - 1), 1u);
}

}  // namespace
}  // namespace warpverbs::transport
