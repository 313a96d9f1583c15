#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/run_shell.hpp"

namespace {

TEST(Connect, ConnectsTwoProcesses) {
  const Result result = RunShell(
      "set -e; pipes=$(mktemp -d); mkfifo $pipes/a $pipes/b;"
      "trap 'rm -r $pipes' EXIT;" SOFTHCA " -- " CONNECT " <$pipes/a >$pipes/b & " SOFTHCA " -- " CONNECT
      " >$pipes/a <$pipes/b; wait $!");
  EXPECT_EQ(result.exit_status, 0) << result.output;
  const std::string path = "  path: to QP ";
  const size_t first = result.output.find(path);
  ASSERT_NE(first, std::string::npos) << result.output;
  EXPECT_NE(result.output.find(path, first + 1), std::string::npos) << result.output;
}

TEST(Connect, HelpSaysWhatItTeaches) {
  const Result result = RunShell(CONNECT " --help");
  EXPECT_EQ(result.exit_status, 0);
  EXPECT_THAT(result.output, testing::StartsWith("Teaches connecting by text: "));
  EXPECT_EQ(RunShell(CONNECT " --colour").exit_status, 2);
}

TEST(Connect, NamesTheErrorOfADamagedLine) {
  for (const char* line : {"''", "hello", "57565250000100300000"}) {
    const Result result =
        RunShell(std::string("echo ") + line + " | " SOFTHCA " -- " CONNECT " 2>&1 >/dev/null");
    EXPECT_EQ(result.exit_status, 1) << result.output;
    EXPECT_THAT(result.output, testing::StartsWith("Cannot read the peer's endpoint information: "));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST(Connect, RefusesALineWithAChangedDigit) {
  const Result result = RunShell(
      "pipes=$(mktemp -d); mkfifo $pipes/a $pipes/b; trap 'rm -r $pipes' EXIT;" SOFTHCA " -- " CONNECT
      " <$pipes/a >$pipes/b & sed -u 's/0\\(.\\{8\\}\\)$/1\\1/' >$pipes/a <$pipes/b; wait $!");
  EXPECT_EQ(result.exit_status, 1) << result.output;
  EXPECT_THAT(result.output, testing::HasSubstr("its checksum is wrong"));
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
}

}  // namespace
