#include "gpuio/mount/node_table.hpp"

#include <gtest/gtest.h>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr uint64_t kRoot = NodeTable::kRoot;

TEST(Nodes, HavePathsBelowTheRoot) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a"), b = nodes.Lookup(a, "b");
  EXPECT_EQ(nodes.Path(kRoot), "");
  EXPECT_EQ(nodes.Path(a), "a");
  EXPECT_EQ(nodes.Path(b), "a/b");
  EXPECT_EQ(nodes.Path(b, "c"), "a/b/c");
  EXPECT_EQ(nodes.Path(kRoot, "c"), "c");
  EXPECT_EQ(nodes.Lookup(kRoot, "a"), a);
  EXPECT_EQ(nodes.Path(12345), std::nullopt);
}

TEST(Nodes, GoWhenTheKernelHasForgottenThemAndAllBelow) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a"), b = nodes.Lookup(a, "b");
  nodes.Lookup(kRoot, "a");
  nodes.Forget(a, 2);
  EXPECT_EQ(nodes.Path(b), "a/b") << "its folder stays as long as it does";
  nodes.Forget(b, 1);
  EXPECT_EQ(nodes.size(), 1u);
  nodes.Forget(b, 1), nodes.Forget(kRoot, 5);
  EXPECT_EQ(nodes.Path(kRoot), "");
}

TEST(Nodes, FollowRenames) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a"), b = nodes.Lookup(a, "b"), c = nodes.Lookup(kRoot, "c");
  nodes.Rename(kRoot, "a", c, "moved", false);
  EXPECT_EQ(nodes.Path(b), "c/moved/b");
  nodes.Rename(c, "moved", c, "moved", false);
  EXPECT_EQ(nodes.Path(a), "c/moved");
  const uint64_t d = nodes.Lookup(kRoot, "d");
  nodes.Rename(kRoot, "d", c, "moved", true);
  EXPECT_EQ(nodes.Path(d), "c/moved");
  EXPECT_EQ(nodes.Path(a), "d");
  EXPECT_EQ(nodes.Path(b), "d/b");
}

TEST(Nodes, LoseTheirPathsWithTheirNames) {
  NodeTable nodes;
  const uint64_t a = nodes.Lookup(kRoot, "a"), b = nodes.Lookup(a, "b");
  nodes.Remove(kRoot, "a");
  EXPECT_EQ(nodes.Path(a), std::nullopt);
  EXPECT_EQ(nodes.Path(b), std::nullopt);
  EXPECT_NE(nodes.Lookup(kRoot, "a"), a) << "a new file of that name is another one";
  const uint64_t c = nodes.Lookup(kRoot, "c"), d = nodes.Lookup(kRoot, "d");
  nodes.Rename(kRoot, "c", kRoot, "d", false);
  EXPECT_EQ(nodes.Path(c), "d");
  EXPECT_EQ(nodes.Path(d), std::nullopt) << "it was replaced";
  nodes.Remove(kRoot, "nothing");
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
