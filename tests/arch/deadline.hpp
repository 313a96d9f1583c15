#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace warpverbs::inline v0_2::arch {

/// Waits until `condition` holds. Returns false if that took too long.
inline bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace warpverbs::inline v0_2::arch
