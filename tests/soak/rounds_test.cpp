#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>

#include "soak/rounds/board.hpp"
#include "soak/rounds/context.hpp"

/// What the sides of a round of chaos share, and how they judge errors by it.
namespace soak {
namespace {

class Judgement : public testing::Test {
 protected:
  const RoundPlan plan_{};
  const std::unique_ptr<Board> board_ = std::make_unique<Board>();
  const Context own_{plan_, *board_, 0}, other_{plan_, *board_, 1};
};

TEST_F(Judgement, ExcusesNothingWithoutACause) {
  EXPECT_FALSE(own_.ExcusesRefusal());
  EXPECT_FALSE(own_.Explains(kRefusal | kSilence | kShortage, 0));
}

TEST_F(Judgement, ExcusesAFailedSetUpAndSilenceOnBothSidesAfterATrouble) {
  for (const Trouble trouble : {kKilled, kStopped, kLinkDown, kRefused, kGone}) {
    board_->sides[1].troubles = trouble;
    for (const Context* const side : {&own_, &other_}) {
      EXPECT_TRUE(side->ExcusesRefusal()) << trouble;
      EXPECT_TRUE(side->Explains(kSilence, 0)) << trouble;
    }
  }
}

TEST_F(Judgement, ExcusesNoSilenceByALimit) {
  board_->sides[1].troubles = kLimited;
  EXPECT_TRUE(own_.ExcusesRefusal());
  EXPECT_TRUE(own_.Explains(kShortage, 0));
  EXPECT_FALSE(own_.Explains(kSilence, 0));
}

TEST_F(Judgement, ExcusesSilenceByADeedOnThePairOnly) {
  board_->sides[0].links[2].deeds = kDisconnected;
  EXPECT_TRUE(other_.Explains(kSilence, 2));
  EXPECT_FALSE(other_.Explains(kSilence, 1));
  EXPECT_FALSE(other_.ExcusesRefusal());
}

TEST_F(Judgement, ExcusesAFailedSetUpIfAnyPairIsImpatient) {
  board_->sides[1].links[3].deeds = kImpatient;
  EXPECT_TRUE(own_.ExcusesRefusal());
}

TEST(BoardFile, HasSpaceForAllOfIt) {
  const std::string path = testing::TempDir() + "board." + std::to_string(getpid());
  struct stat status {};
  {
    const BoardFile board = BoardFile::Create(path);
    ASSERT_EQ(stat(path.c_str(), &status), 0);
  }
  std::filesystem::remove(path);
  EXPECT_EQ(static_cast<size_t>(status.st_size), sizeof(Board));
  EXPECT_GE(static_cast<size_t>(status.st_blocks) * 512, sizeof(Board));
}

}  // namespace
}  // namespace soak
