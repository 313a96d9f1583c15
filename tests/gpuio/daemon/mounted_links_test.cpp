#include "gpuio/daemon/mounted_links.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

namespace warpverbs::inline v0_2::gpuio {
namespace {

const std::string kLinkName = "00112233445566778899aabbccddeeff";
constexpr ControlCaller kAlice{.user = 1000}, kBob{.user = 1001}, kRoot{};

struct Links : testing::Test {
  void SetUp() override {
    links.Open("/run/socket", {"/dev/shm/sem.h", "/dev/shm/sem.n", "/dev/shm/sem.l"},
               [this](const std::string& name) { removed.push_back(name); });
  }
  MountedLinks links;
  std::vector<std::string> removed;
};

TEST_F(Links, ShowTheDaemonUntilItCloses) {
  EXPECT_EQ(links.Socket(), "/run/socket");
  EXPECT_THAT(links.List(), testing::UnorderedElementsAre("submit-ios", "submit-ios.ph", "submit-ios.pl"));
  EXPECT_EQ(links.Target("submit-ios.ph"), "/dev/shm/sem.h");
  EXPECT_EQ(links.Target("submit-ios"), "/dev/shm/sem.n");
  EXPECT_EQ(links.Target("submit-ios.pl"), "/dev/shm/sem.l");
  links.Close();
  EXPECT_EQ(links.Socket(), "");
  EXPECT_TRUE(links.List().empty());
}

TEST_F(Links, AreWhatApplicationsMake) {
  std::string target;
  EXPECT_EQ(links.ReadLink(kLinkName, target), ENOENT);
  EXPECT_EQ(links.Add(kLinkName, "/dev/shm/x", kAlice), 0);
  EXPECT_EQ(links.ReadLink(kLinkName, target), 0);
  EXPECT_EQ(target, "/dev/shm/x");
  EXPECT_EQ(links.Target(kLinkName), "/dev/shm/x");
  EXPECT_EQ(links.Add(kLinkName, "/dev/shm/y", kAlice), EEXIST);
  EXPECT_EQ(links.Add("submit-ios", "/dev/shm/y", kAlice), EEXIST);
  EXPECT_EQ(links.Add("other", "/dev/shm/y", kAlice), EINVAL);
  EXPECT_EQ(links.Add(kLinkName + ".r0", std::string(4096, 'x'), kAlice), ENAMETOOLONG);
}

TEST_F(Links, AreRemovedByTheirOwnerOrRoot) {
  for (const char* const suffix : {"", ".r0"})
    ASSERT_EQ(links.Add(kLinkName + suffix, "/dev/shm/x", kAlice), 0);
  EXPECT_EQ(links.Remove(kLinkName, kBob), EACCES);
  EXPECT_EQ(links.Remove("submit-ios", kRoot), EACCES);
  EXPECT_EQ(links.Remove(kLinkName + ".w0", kAlice), ENOENT);
  EXPECT_TRUE(removed.empty());
  EXPECT_EQ(links.Remove(kLinkName, kAlice), 0);
  EXPECT_EQ(links.Remove(kLinkName + ".r0", kRoot), 0);
  EXPECT_THAT(removed, testing::ElementsAre(kLinkName, kLinkName + ".r0"));
}

TEST_F(Links, AreRemovedByTheDaemonOnlyIfTheyAreTheSame) {
  ASSERT_EQ(links.Add(kLinkName, "/dev/shm/x", kAlice), 0);
  links.Unlink(kLinkName, "/dev/shm/y");
  EXPECT_TRUE(links.Target(kLinkName).has_value());
  links.Unlink(kLinkName, "/dev/shm/x");
  EXPECT_FALSE(links.Target(kLinkName).has_value());
  EXPECT_TRUE(removed.empty()) << "the daemon knows what it removes";
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
