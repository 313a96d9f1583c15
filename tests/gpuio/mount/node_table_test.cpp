#include "gpuio/mount/node_table.hpp"

#include <gtest/gtest.h>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr uint64_t kRoot = NodeTable::kRoot;

TEST(Nodes, HavePathsBelowTheRoot) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a", 11), b = nodes.Lookup(a, "b", 12);
  EXPECT_EQ(nodes.Path(kRoot), "");
  EXPECT_EQ(nodes.Path(a), "a");
  EXPECT_EQ(nodes.Path(b), "a/b");
  EXPECT_EQ(nodes.Path(b, "c"), "a/b/c");
  EXPECT_EQ(nodes.Path(kRoot, "c"), "c");
  EXPECT_EQ(nodes.Lookup(kRoot, "a", 11), a);
  EXPECT_EQ(nodes.Path(12345), std::nullopt);
}

TEST(Nodes, GoWhenTheKernelHasForgottenThemAndAllBelow) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a", 11), b = nodes.Lookup(a, "b", 12);
  nodes.Lookup(kRoot, "a", 11);
  nodes.Forget(a, 2);
  EXPECT_EQ(nodes.Path(b), "a/b") << "its folder stays as long as it does";
  nodes.Forget(b, 1);
  EXPECT_EQ(nodes.size(), 1u);
  nodes.Forget(b, 1), nodes.Forget(kRoot, 5);
  EXPECT_EQ(nodes.Path(kRoot), "");
}

TEST(Nodes, FollowRenames) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a", 11), b = nodes.Lookup(a, "b", 12),
                 c = nodes.Lookup(kRoot, "c", 13);
  nodes.Rename(kRoot, "a", c, "moved", false);
  EXPECT_EQ(nodes.Path(b), "c/moved/b");
  nodes.Rename(c, "moved", c, "moved", false);
  EXPECT_EQ(nodes.Path(a), "c/moved");
  const uint64_t d = nodes.Lookup(kRoot, "d", 14);
  nodes.Rename(kRoot, "d", c, "moved", true);
  EXPECT_EQ(nodes.Path(d), "c/moved");
  EXPECT_EQ(nodes.Path(a), "d");
  EXPECT_EQ(nodes.Path(b), "d/b");
}

TEST(Nodes, LoseTheirPathsWithTheirNames) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a", 11), b = nodes.Lookup(a, "b", 12);
  nodes.Remove(kRoot, "a");
  EXPECT_EQ(nodes.Path(a), std::nullopt);
  EXPECT_EQ(nodes.Path(b), std::nullopt);
  EXPECT_NE(nodes.Lookup(kRoot, "a", 11), a) << "a new file of that name is another one";
  const uint64_t c = nodes.Lookup(kRoot, "c", 13), d = nodes.Lookup(kRoot, "d", 14);
  nodes.Rename(kRoot, "c", kRoot, "d", false);
  EXPECT_EQ(nodes.Path(c), "d");
  EXPECT_EQ(nodes.Path(d), std::nullopt) << "it was replaced";
  nodes.Remove(kRoot, "nothing");
}

TEST(Nodes, AreOthersOnceTheirNamesAreOfOtherFiles) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a", 11), b = nodes.Lookup(a, "b", 12);
  EXPECT_EQ(nodes.Lookup(a, "b", 12), b);
  const uint64_t replaced = nodes.Lookup(a, "b", 99);
  EXPECT_NE(replaced, b);
  EXPECT_EQ(nodes.Path(b), std::nullopt) << "the kernel may have it open";
  EXPECT_EQ(nodes.Path(replaced), "a/b");
  nodes.Forget(b, 2);
  nodes.Forget(replaced, 1);
  nodes.Forget(a, 1);
  EXPECT_EQ(nodes.size(), 1u);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
