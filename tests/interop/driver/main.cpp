// Drives two peers, which may be any two implementations of RoCE v2.
#include <gtest/gtest.h>

#include <cstdio>
#include <exception>
#include <optional>
#include <string>

#include "conversation.hpp"

int main(int argc, char** argv) try {
  constexpr int kPatienceMs = 30'000;  // a guest starts within this
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
    std::fprintf(stderr, "usage: %s NAME SOCKET NAME SOCKET [options of GoogleTest]\n", argv[0]);
    return 2;
  }
  return RUN_ALL_TESTS();
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
