#include "gpuio/protocol/path.hpp"

#include <gtest/gtest.h>

#include <string>

namespace warpverbs::inline v0_2::gpuio::protocol {
namespace {

TEST(Paths, BecomePlain) {
  EXPECT_EQ(ToPlainPath(""), "");
  EXPECT_EQ(ToPlainPath("/"), "");
  EXPECT_EQ(ToPlainPath("."), "");
  EXPECT_EQ(ToPlainPath("/a//b/./c/"), "a/b/c");
  EXPECT_EQ(ToPlainPath("..."), "...");
}

TEST(Paths, StayInTheFolder) {
  EXPECT_FALSE(ToPlainPath(".."));
  EXPECT_FALSE(ToPlainPath("a/../b"));
  EXPECT_FALSE(ToPlainPath(std::string("a\0b", 3)));
}

TEST(Paths, HaveALongestLength) {
  EXPECT_TRUE(ToPlainPath(std::string(255, 'a')));
  EXPECT_FALSE(ToPlainPath(std::string(256, 'a')));
  std::string path = "a";
  while (path.size() < kMaxPathBytes) path += "/a";
  EXPECT_EQ(path.size(), kMaxPathBytes);
  EXPECT_TRUE(IsPlainPath(path));
  EXPECT_FALSE(IsPlainPath(path + "b"));
}

TEST(Paths, SplitAtTheirLastName) {
  EXPECT_EQ(SplitPath("a/b/c").parent, "a/b");
  EXPECT_EQ(SplitPath("a/b/c").name, "c");
  EXPECT_EQ(SplitPath("a").parent, "");
  EXPECT_EQ(SplitPath("a").name, "a");
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio::protocol
