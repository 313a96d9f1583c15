#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/run_shell.hpp"

TEST(NoCuda, AskingForAGpuFailsWithASentence) {
  const Result result = RunShell(SOFTHCA " -- " SIMPLE_GPU_INTERCHANGE " --device cuda:0");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, testing::EndsWith("Cannot use a GPU: this program was built without CUDA. "
                                               "Configure it with -DWARPVERBS_CUDA=ON.\n"));
}
