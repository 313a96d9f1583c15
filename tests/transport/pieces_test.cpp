#include "pieces.hpp"

#include <gtest/gtest.h>

#include <map>

namespace warpverbs::transport {
namespace {

TEST(Pieces, HaveOneLastPieceOnEachChannel) {
  for (uint64_t count = 1; count < 20; ++count) {
    for (const uint32_t channels : {1u, 3u, 8u}) {
      const Pieces pieces{.count = count, .channels = channels, .first_channel = 1 % channels};
      std::map<uint32_t, uint64_t> last;
      for (uint64_t i = 0; i < pieces.count; ++i) last[pieces.Channel(i)] = i;
      EXPECT_EQ(last.size(), pieces.channels_used());
      for (uint64_t i = 0; i < pieces.count; ++i) {
        EXPECT_EQ(pieces.IsLastOnChannel(i), last[pieces.Channel(i)] == i) << i << " of " << count;
      }
    }
  }
}

TEST(Pieces, CoverEachPart) {
  EXPECT_EQ(Pieces::CountOf(0, 100), 1u) << "an empty part is one empty piece";
  EXPECT_EQ(Pieces::CountOf(1, 100), 1u);
  EXPECT_EQ(Pieces::CountOf(100, 100), 1u);
  EXPECT_EQ(Pieces::CountOf(101, 100), 2u);
  EXPECT_EQ(Pieces::CountOf((uint64_t{1} << 40) + 1, 1 << 20), (uint64_t{1} << 20) + 1);
}

}  // namespace
}  // namespace warpverbs::transport
