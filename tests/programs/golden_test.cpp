#include "golden.hpp"

namespace golden {
namespace {

TEST(Golden, MatchesTheSameText) {
  EXPECT_TRUE(Matches("a\nb\n", "a\nb\n"));
  EXPECT_TRUE(Matches("", ""));
}

TEST(Golden, MatchesAnythingForAPlaceholder) {
  EXPECT_TRUE(Matches("a <*> c <*>\n", "a bb c \n"));
  EXPECT_FALSE(Matches("a <*> c\n", "a bb d\n"));
  EXPECT_TRUE(Matches("a\n<...>\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(Matches("a\n<...>\n", "a\n"));
  EXPECT_FALSE(Matches("a\n<...>\nd\n", "a\nb\n"));
}

TEST(Golden, NamesTheFirstLineThatDiffers) {
  EXPECT_STREQ(Matches("a\nb\n", "a\nc\n").message(), "line 2\n  is:        c\n  should be: b");
  EXPECT_STREQ(Matches("a\nb\n", "a\n").message(), "line 2\n  is:        (the end)\n  should be: b");
  EXPECT_STREQ(Matches("a\n", "a\nb\n").message(), "line 2\n  is:        b\n  should be: (the end)");
}

TEST(Golden, NamesAMissingFile) {
  EXPECT_NE(std::string(MatchesFile("no_such_file", "").message()).find("golden/no_such_file"),
            std::string::npos);
}

}  // namespace
}  // namespace golden
