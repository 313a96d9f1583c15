#include "text/printable.hpp"

#include <gtest/gtest.h>

namespace warpverbs::programs {
namespace {

TEST(Printable, KeepsPrintableText) {
  EXPECT_EQ(Printable("Cannot use mlx5_0: ~50 % [of it]."), "Cannot use mlx5_0: ~50 % [of it].");
  EXPECT_EQ(Printable(""), "");
}

TEST(Printable, ReplacesControlCharacters) {
  EXPECT_EQ(Printable("\x1b]0;title\a"), "?]0;title?");
  EXPECT_EQ(Printable("two\r\nlines\t\x7f"), "two??lines??");
  EXPECT_EQ(Printable("\x9b"
                      "2J\xc2\x9b"
                      "2J"),
            "?2J??2J");
  EXPECT_EQ(Printable(std::string_view("\0x", 2)), "?x");
}

TEST(Printable, LimitsTheLength) {
  EXPECT_EQ(Printable("warpverbs", 4), "warp");
  EXPECT_EQ(Printable(std::string(5000, 'x')), std::string(1000, 'x'));
}

}  // namespace
}  // namespace warpverbs::programs
