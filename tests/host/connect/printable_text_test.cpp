#include <gtest/gtest.h>

#include "warpverbs/host/exchange.hpp"

namespace warpverbs::host {
namespace {

TEST(PrintableText, LeavesWordsAsTheyAre) {
  EXPECT_EQ(PrintableText("Cannot use mlx5_0: ~50 % [of it]."), "Cannot use mlx5_0: ~50 % [of it].");
  EXPECT_EQ(PrintableText(""), "");
}

TEST(PrintableText, LetsNothingThroughThatATerminalObeys) {
  EXPECT_EQ(PrintableText("\x1b]0;title\a"), "?]0;title?");
  EXPECT_EQ(PrintableText("two\r\nlines\t\x7f"), "two??lines??");
  EXPECT_EQ(PrintableText("\x9b"
                          "2J\xc2\x9b"
                          "2J"),
            "?2J??2J");
  EXPECT_EQ(PrintableText(std::string_view("\0x", 2)), "?x");
}

TEST(PrintableText, IsNotTooMuch) {
  EXPECT_EQ(PrintableText("warpverbs", 4), "warp");
  EXPECT_EQ(PrintableText(std::string(5000, 'x')), std::string(1000, 'x'));
}

}  // namespace
}  // namespace warpverbs::host
