// Drives two peers, which may be any two RoCE v2 implementations, or runs a program at a peer's place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

#include "conversation.hpp"

namespace {

constexpr int kTimeoutMs = 30'000;  // enough for a guest to start

int RunAtPeer(const std::string& socket, std::string_view line) {
  interop::RunProgram program;
  if (line.size() >= program.line.size()) {
    std::fprintf(stderr, "The command line is longer than %zu characters.\n", program.line.size() - 1);
    return 2;
  }
  std::copy(line.begin(), line.end(), program.line.begin());
  const interop::Answer answer = interop::RemoteParty("there", socket, kTimeoutMs).Ask(program);
  std::fputs(answer.text.data(), stdout);
  return answer.error ? 1 : static_cast<int>(answer.value);
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 4 && std::string_view(argv[1]) == "run") return RunAtPeer(argv[2], argv[3]);
  std::optional<interop::RemoteParty> first, second;
  // Test names contain the peers' names, so the peers must be known before GoogleTest registers the tests.
  // Listing the tests needs no peer.
  if (argc >= 5 && argv[1][0] != '-') {
    first.emplace(argv[1], argv[2], kTimeoutMs);
    second.emplace(argv[3], argv[4], kTimeoutMs);
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
