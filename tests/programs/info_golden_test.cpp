#include "fake_machine.hpp"
#include "golden.hpp"
#include "info/report.hpp"

namespace warpverbs::programs {
namespace {

TEST(Info, ShowsAGoodMachine) {
  const GoodMachine good;
  EXPECT_TRUE(golden::MatchesFile("info_good.txt", InfoText(good.machine.files, good.machine.survey)));
  EXPECT_TRUE(golden::MatchesFile("info_good.json", InfoJson(good.machine.files, good.machine.survey)));
}

TEST(Info, ShowsHardwareThatDoesNotOpen) {
  GoodMachine broken;
  broken.nic().problem = "Cannot open mlx5_0 with DEVX: Permission denied (EACCES)";
  broken.nic().remedy = "Check the permission of /dev/infiniband/uverbs*";
  broken.nic().ports.clear();
  broken.gpu().problem = "Cannot open cuda:0: out of memory";
  broken.gpu().remedy = "Check that the GPU has memory left";
  EXPECT_TRUE(golden::MatchesFile("info_broken.txt", InfoText(broken.machine.files, broken.machine.survey)));
  EXPECT_TRUE(golden::MatchesFile("info_broken.json", InfoJson(broken.machine.files, broken.machine.survey)));
}

TEST(Info, ExplainsTheChoiceOfGids) {
  GoodMachine good;
  good.port().gids.push_back(good.port().gids.back());
  good.port().gids.back().index = 4;
  const auto choices = ExplainGids(good.port());
  ASSERT_EQ(choices.size(), 5u);
  EXPECT_EQ(choices[0].why, "RoCE v1: dropped by routers");
  EXPECT_EQ(choices[1].why, "link-local: not routed");
  EXPECT_TRUE(choices[3].chosen);
  EXPECT_EQ(choices[4].why, "as good as the best, but later in the table");
}

TEST(Info, ExplainsARequestedGid) {
  GoodMachine good;
  const auto choices = ExplainGids(good.port(), DeviceSelection({.gid_index = 1}, {}));
  EXPECT_TRUE(choices[1].chosen);
  EXPECT_EQ(choices[1].why, "requested; link-local: not routed");
  EXPECT_FALSE(choices[3].chosen);
  EXPECT_EQ(choices[3].why, "the best: IPv4, routed in most networks");
}

}  // namespace
}  // namespace warpverbs::programs
