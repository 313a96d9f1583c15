#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "warpverbs/transport/rdma_transport.hpp"

/// The fixture of most transport tests: two transports, and memory on both sides.
namespace warpverbs::inline v0_2::transport {

/// Deadline of every operation, for busy machines too.
inline constexpr std::chrono::seconds kTestTimeout{60};

/// Returns the status that an operation ends with.
inline Status ResultOf(std::future<Status> future) {
  if (future.wait_for(kTestTimeout) != std::future_status::ready)
    return {Code::kTimeout, "the test waited too long"};
  return future.get();
}

inline bool IsReady(const std::future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// Returns the value of a future, or throws after a minute.
template <class T>
T GetInTime(std::future<T> future) {
  if (future.wait_for(kTestTimeout) != std::future_status::ready)
    throw std::runtime_error("the test waited too long");
  return future.get();
}

/// Takes a notification if one has arrived. A wait with timeout 0 ends after all earlier arrivals were
/// processed.
inline bool TakeNotification(RdmaTransport& transport) {
  const Status status = ResultOf(transport.WaitForWrite({.timeout = std::chrono::nanoseconds(0)}));
  EXPECT_TRUE(status.ok() || status == Code::kTimeout) << status.Describe();
  return status.ok();
}

/// Fills bytes with a pattern that depends on the place and the seed.
inline void FillPattern(std::vector<uint8_t>& bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<uint8_t>(state >> 56);
  }
}

/// Registered memory of one side.
struct Buffer {
  explicit Buffer(size_t size, int device = 0, const RdmaMemoryConfig& config = {})
      : bytes(size), memory(bytes.data(), size, device, config) {}

  std::vector<uint8_t> bytes;
  RdmaMemory memory;
};

struct Pair {
  explicit Pair(const TransportConfig& config = {}, EventLoop* loop = nullptr)
      : a(0, config, loop), b(0, config, loop) {}

  void Connect() {
    const Bound at_a = a.Bind(), at_b = b.Bind();
    ASSERT_TRUE(at_a.status.ok()) << at_a.status.Describe();
    ASSERT_TRUE(at_b.status.ok()) << at_b.status.Describe();
    const Status from_a = a.Connect(at_b.url), from_b = b.Connect(at_a.url);
    ASSERT_TRUE(from_a.ok()) << from_a.Describe();
    ASSERT_TRUE(from_b.ok()) << from_b.Describe();
  }

  RdmaTransport a, b;
};

#define EXPECT_SUCCESS(status) EXPECT_EQ((status).Describe(), "success")
#define ASSERT_SUCCESS(status) ASSERT_EQ((status).Describe(), "success")

}  // namespace warpverbs::inline v0_2::transport
