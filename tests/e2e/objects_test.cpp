#include <gtest/gtest.h>

#include <regex>
#include <string>

#include "common/run_shell.hpp"

namespace {

TEST(Objects, AreAllDestroyedAfterTheCycles) {
  const auto [exit_status, output] = RunShell(CYCLES_COMMAND);
  ASSERT_EQ(exit_status, 0) << output;

  const std::regex line("softhca: mlx5_0: (\\w+): (\\d+) exist, (\\d+) created");
  int kinds = 0;
  for (std::sregex_iterator match(output.begin(), output.end(), line), end; match != end; ++match, ++kinds) {
    const std::string kind = (*match)[1];
    EXPECT_EQ((*match)[2], "0") << kind;
    EXPECT_GE(std::stoi((*match)[3]), kind == "srq" ? 0 : 100)
        << kind;  // the library uses no shared receive queue
  }
  EXPECT_EQ(kinds, 7) << output;
}

}  // namespace
