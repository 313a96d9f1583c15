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

TEST(SimpleGpuInterchange, WritesTheBytesAndValueOfItsOptions) {
  for (const auto& [bytes, value] : {std::pair{"1", "0"}, {"4097", "255"}, {"3000001", "7"}}) {
    const Result result = RunOnSofthca(std::string("--bytes ") + bytes + " --value " + value);
    EXPECT_EQ(result.exit_status, 0) << result.output;
    EXPECT_THAT(result.output,
                EndsWith(std::string("All ") + bytes + " bytes verified with value " + value + "\n"));
  }
}

TEST(SimpleGpuInterchange, HelpListsItsOptions) {
  const Result result = RunShell(SIMPLE_GPU_INTERCHANGE " --help");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, testing::StartsWith("Teaches the eight steps of RDMA by a kernel"));
  for (const char* option : {"--bytes", "--value", "--device", "--placement", "--nic", "--help"})
    EXPECT_THAT(result.output, HasSubstr(option));
}

TEST(SimpleGpuInterchange, RefusesInvalidOptionsWithStatus2) {
  for (const char* option :
       {"--colour red", "--bytes 0", "--bytes many", "--value 256", "--device tpu",
        "--device cuda:", "--device cuda:x", "--device cuda:0,cpu", "--device cuda:0,cuda:", "--listen 1",
        "--placement moon", "--placement gpu", "stray"}) {
    const Result result = RunShell(std::string(SIMPLE_GPU_INTERCHANGE " ") + option);
    EXPECT_EQ(result.exit_status, 2) << option << "\n" << result.output;
    EXPECT_THAT(result.output, EndsWith("see --help\n"));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST(SimpleGpuInterchange, RefusesGpuMemoryWithoutAGpu) {
  const Result result = RunOnSofthca("--placement gpu");
  EXPECT_EQ(result.exit_status, 2) << result.output;
  EXPECT_THAT(result.output,
              EndsWith(": --placement gpu needs a GPU: give --device cuda:N too; see --help\n"));
  EXPECT_EQ(RunOnSofthca("--placement host").exit_status, 0);
}

TEST(SimpleGpuInterchange, RefusesAGpuInABuildWithoutCuda) {
  if (WITH_CUDA) GTEST_SKIP() << "built with CUDA";
  const Result result = RunOnSofthca("--device cuda:0");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, EndsWith("Cannot use a GPU: this program was built without CUDA. "
                                      "Configure it with -DWARPVERBS_CUDA=ON.\n"));
}

TEST(SimpleGpuInterchange, FailsWhenTheWriteFails) {
  const Result result = RunOnSofthca("", "--fault syndrome:0x13,index=0");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\nThe write failed: error: "));
}

TEST(SimpleGpuInterchange, FailsWhenAByteArrivesWrong) {
  const Result result = RunOnSofthca("", "--fault flip,nth=1");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, EndsWith("\nOnly 1023 of 1024 bytes are right.\n"));
}

TEST(SimpleGpuInterchange, NamesThePortThatIsDown) {
  const Result result = RunOnSofthca("", "--port-down all");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("no port is active (mlx5_0: port 1 is down)"));
}

TEST(SimpleGpuInterchange, OpensTheNicOfItsOption) {
  const Result result = RunOnSofthca("--nic mlx5_1", "--devices 2");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1. Opened mlx5_1\n"));
  const Result missing = RunOnSofthca("--nic mlx5_9");
  EXPECT_EQ(missing.exit_status, 1) << missing.output;
  EXPECT_THAT(missing.output, EndsWith("no ConnectX has that name. Name one of: mlx5_0.\n"));
}

TEST(SimpleGpuInterchange, SaysWhatToDoWithoutAnRdmaDevice) {
  if (std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "this machine may have one";
  const Result result = RunShell(SIMPLE_GPU_INTERCHANGE);
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output,
              testing::StartsWith("Cannot find an RDMA device: this machine has no ConnectX. Plug in"));
}

TEST(SimpleGpuInterchange, SplitsAWriteLongerThanAMessage) {
  const Result result = RunOnSofthca("--bytes 8193", "--max-message 4k");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  EXPECT_THAT(result.output, EndsWith("All 8193 bytes verified with value 42\n"));
}

TEST(SimpleGpuInterchange, RefusesAWriteLongerThanTheQueue) {
  const Result result = RunOnSofthca("--bytes 1000000", "--max-message 4k");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("\nThe write failed: invalid, and nothing was posted: it takes more "));
  EXPECT_THAT(result.output, Not(HasSubstr("Success")));
}

}  // namespace
