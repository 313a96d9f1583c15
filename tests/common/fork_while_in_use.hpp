#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "common/run_in_child.hpp"

namespace warpverbs::tests {

/// Forks while a thread uses an object, 1,000 times or for five seconds. Each child ends its part, or is
/// killed after a minute.
///
/// Skips the test under AddressSanitizer, whose own allocator does not survive a fork while another thread
/// allocates.
template <class Use, class Part>
void ForkWhileInUse(const Use& use, const Part& part) {
#ifdef __SANITIZE_ADDRESS__
  static_cast<void>(use);
  static_cast<void>(part);
  GTEST_SKIP() << "AddressSanitizer's allocator does not survive a fork while another thread allocates";
#else
  std::atomic<bool> stop = false;
  std::jthread user([&] {
    while (!stop) use();
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (int times = 0; times < 1000 && std::chrono::steady_clock::now() < end; ++times) {
    RunInChild(part);
    if (testing::Test::HasFailure()) break;
  }
  stop = true;
#endif
}

}  // namespace warpverbs::tests
