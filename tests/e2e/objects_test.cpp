#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <regex>
#include <string>

namespace {

TEST(Objects, NoneIsLeftOfAHundredCycles) {
  std::string output;
  FILE* const pipe = popen(CYCLES_COMMAND " 2>&1", "r");
  ASSERT_NE(pipe, nullptr);
  std::array<char, 4096> buffer;
  for (size_t bytes = 0; (bytes = fread(buffer.data(), 1, buffer.size(), pipe)) != 0;) {
    output.append(buffer.data(), bytes);
  }
  ASSERT_EQ(pclose(pipe), 0) << output;

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
