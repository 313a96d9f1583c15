// Drives two peers, which may be any two implementations of RoCE v2; or runs a program where a peer is.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "conversation.hpp"

namespace {

constexpr int kPatienceMs = 30'000;  // a guest starts within this

int RunThere(const std::string& socket, std::string_view line) {
  interop::RunProgram program;
  if (line.size() >= program.line.size()) {
    std::fprintf(stderr, "The command line is longer than %zu characters.\n", program.line.size() - 1);
    return 2;
  }
  std::copy(line.begin(), line.end(), program.line.begin());
  const interop::Answer answer = interop::RemoteParty("there", socket, kPatienceMs).Ask(program);
  std::fputs(answer.text.data(), stdout);
  return answer.error ? 1 : static_cast<int>(answer.value);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 4 && std::string_view(argv[1]) == "run") return RunThere(argv[2], argv[3]);
  std::optional<interop::RemoteParty> first, second;
  // Names of tests tell who asks whom, so the peers must be known before GoogleTest registers them. To list
  // the tests needs no peer.
  if (argc >= 5 && argv[1][0] != '-') {
    first.emplace(argv[1], argv[2], kPatienceMs);
    second.emplace(argv[3], argv[4], kPatienceMs);
    interop::peers = {&*first, &*second};
  }
  testing::InitGoogleTest(&argc, argv);
  if (!first && !testing::GTEST_FLAG(list_tests)) {
    std::fprintf(stderr, "usage: %s NAME SOCKET NAME SOCKET [options of GoogleTest] | run SOCKET LINE\n",
                 argv[0]);
    return 2;
  }
  return RUN_ALL_TESTS();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
