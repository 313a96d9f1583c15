#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "common/run_shell.hpp"

namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

Result RunOnSofthca(const std::string& options, const std::string& softhca_options = "") {
  return RunShell(SOFTHCA " " + softhca_options + " -- " SIMPLE_GPU_INTERCHANGE " " + options);
}

TEST(SimpleGpuInterchange, Writes1024BytesOf42InEightSteps) {
  const Result result = RunOnSofthca("");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  size_t at = 0;
  for (int step = 1; step <= 8; ++step) {
    at = ("\n" + result.output).find("\n" + std::to_string(step) + ". ", at);
    ASSERT_NE(at, std::string::npos) << "no step " << step << " in its place in\n" << result.output;
  }
  EXPECT_THAT(result.output, EndsWith("Success! All 1024 bytes verified with value 42\n"));
}

TEST(SimpleGpuInterchange, WritesWhatItIsTold) {
  for (const auto& [bytes, value] : {std::pair{"1", "0"}, {"4097", "255"}, {"3000001", "7"}}) {
    const Result result = RunOnSofthca(std::string("--bytes ") + bytes + " --value " + value);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    EXPECT_THAT(result.output,
                EndsWith(std::string("All ") + bytes + " bytes verified with value " + value + "\n"));
  }
}

TEST(SimpleGpuInterchange, TakesTheFabricOfNcclWhereNoOptionSaysOtherwise) {
  const std::string nccl = "env NCCL_IB_HCA=mlx5_1 NCCL_IB_GID_INDEX=1 NCCL_IB_TC=106 NCCL_IB_SL=5 ";
  const std::string run = SOFTHCA " --devices 2 -- " + nccl + SIMPLE_GPU_INTERCHANGE " ";
  const Result by_nccl = RunShell(run);
  EXPECT_EQ(by_nccl.exit_status, 0) << by_nccl.output;
  EXPECT_THAT(by_nccl.output,
              HasSubstr("   taking mlx5_1 port 1 (by NCCL_IB_HCA=mlx5_1), GID 1 (by NCCL_IB_GID_INDEX=1), "
                        "traffic class 106 (by NCCL_IB_TC=106), service level 5 (by NCCL_IB_SL=5)\n"));
  const Result by_options = RunShell(run + "--nic mlx5_0 --gid-index 3 --traffic-class 8 --service-level 0");
  EXPECT_EQ(by_options.exit_status, 0) << by_options.output;
  EXPECT_THAT(by_options.output,
              HasSubstr("   taking mlx5_0 (by the command line), GID 3 (by --gid-index), traffic class 8 (by "
                        "--traffic-class), service level 0 (by --service-level)\n"));
}

TEST(SimpleGpuInterchange, RefusesABadVariableOfNcclInOneSentence) {
  const Result result = RunShell("env NCCL_IB_SL=16 " SIMPLE_GPU_INTERCHANGE);
  EXPECT_EQ(result.exit_status, 2);
  EXPECT_THAT(result.output, EndsWith(": Cannot use NCCL_IB_SL=16: a service level is a number from 0 to 15. "
                                      "Set it to 0 to 15, or unset it.\n"));
  const Result none = RunShell(SOFTHCA " -- env NCCL_IB_HCA=mlx5_7 " SIMPLE_GPU_INTERCHANGE);
  EXPECT_EQ(none.exit_status, 1);
  EXPECT_THAT(none.output,
              HasSubstr("Cannot use NCCL_IB_HCA=mlx5_7: no port that it allows is active. Set it "
                        "to what is active, such as mlx5_0:1, or unset it."));
}

TEST(SimpleGpuInterchange, HelpSucceeds) {
  const Result result = RunShell(SIMPLE_GPU_INTERCHANGE " --help");
  EXPECT_EQ(result.exit_status, 0);
  for (const char* option :
       {"--bytes", "--value", "--device", "--placement", "--nic", "--gid-index", "NCCL_IB_HCA", "--help"})
    EXPECT_THAT(result.output, HasSubstr(option));
}

TEST(SimpleGpuInterchange, RefusesOptionsThatItDoesNotKnowWithStatus2) {
  for (const char* option :
       {"--colour red", "--bytes 0", "--bytes many", "--value 256", "--device tpu",
        "--device cuda:", "--device cuda:x", "--device cuda:0,cpu",
        "--device cuda:0,cuda:", "--device cuda:0,cuda:1 --listen 1", "--placement moon", "stray"}) {
    const Result result = RunShell(std::string(SIMPLE_GPU_INTERCHANGE " ") + option);
    EXPECT_EQ(result.exit_status, 2) << option << "\n" << result.output;
    EXPECT_THAT(result.output, EndsWith("see --help\n"));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST(SimpleGpuInterchange, HasNoGpuMemoryWithoutAGpu) {
  const Result demanded = RunOnSofthca("--placement gpu");
  EXPECT_EQ(demanded.exit_status, 1) << demanded.output;
  EXPECT_THAT(demanded.output, HasSubstr("\nCannot place queues on mlx5_0 in GPU memory: no GPU is named. "));
  EXPECT_EQ(RunOnSofthca("--placement host").exit_status, 0);
}

TEST(SimpleGpuInterchange, FailsWithASentenceWhereThePortIsDown) {
  const Result result = RunOnSofthca("", "--port-down all");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no port is active (mlx5_0: port 1 is down)"));
}

TEST(SimpleGpuInterchange, UsesTheNicThatItIsTold) {
  const Result result = RunOnSofthca("--nic mlx5_1", "--devices 2");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("3. Opening two contexts of mlx5_1\n"));
  const Result missing = RunOnSofthca("--nic mlx5_9");
  EXPECT_EQ(missing.exit_status, 1) << missing.output;
  EXPECT_THAT(missing.output, EndsWith("there is no ConnectX of that name. Name one of: mlx5_0.\n"));
}

TEST(SimpleGpuInterchange, FailsWithASentenceWithoutARdmaDevice) {
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine may have one";
  const Result result = RunShell(SIMPLE_GPU_INTERCHANGE);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("\nCannot find an RDMA device: this machine has no ConnectX. Plug in"));
}

TEST(SimpleGpuInterchange, SplitsWhatIsLongerThanTheLongestMessage) {
  const Result result = RunOnSofthca("--bytes 8193", "--max-message 4k");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, EndsWith("All 8193 bytes verified with value 42\n"));
}

TEST(SimpleGpuInterchange, FailsWithASentenceWhereTheWriteDoesNotFitIntoTheQueue) {
  const Result result = RunOnSofthca("--bytes 1000000", "--max-message 4k");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("\nThe write failed: invalid, and nothing was posted: it takes more "));
  EXPECT_THAT(result.output, Not(HasSubstr("Success")));
}

}  // namespace
