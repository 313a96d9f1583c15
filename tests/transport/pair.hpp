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

/// Two transports and memory on both sides: what most tests of transports start from.
namespace warpverbs::transport {

/// Within which everything must end, however busy the machine is.
inline constexpr std::chrono::seconds kLong{60};

/// How an operation ends.
inline Status Outcome(std::future<Status> future) {
  if (future.wait_for(kLong) != std::future_status::ready)
    return {Code::kTimeout, "the test waited too long"};
  return future.get();
}

inline bool IsReady(const std::future<Status>& future) {
  return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

/// What comes, in time.
template <class T>
T InTime(std::future<T> future) {
  if (future.wait_for(kLong) != std::future_status::ready)
    throw std::runtime_error("the test waited too long");
  return future.get();
}

/// Whether a notification is there that nobody has taken, and takes it. A wait without time is answered after
/// all that had arrived when it began was looked at.
inline bool TakesOne(RdmaTransport& transport) {
  const Status status = Outcome(transport.WaitForWrite({.timeout = std::chrono::nanoseconds(0)}));
  EXPECT_TRUE(status.ok() || status == Code::kTimeout) << status.What();
  return status.ok();
}

/// Bytes that differ from place to place and from seed to seed.
inline void FillPattern(std::vector<uint8_t>& bytes, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (uint8_t& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<uint8_t>(state >> 56);
  }
}

/// Registered memory of one side.
struct Buffer {
  explicit Buffer(size_t size, int device = 0, const RdmaMemoryOptions& options = {})
      : bytes(size), memory(bytes.data(), size, device, options) {}

  std::vector<uint8_t> bytes;
  RdmaMemory memory;
};

struct Pair {
  explicit Pair(const TransportOptions& options = {}, EventLoop* loop = nullptr)
      : a(0, options, loop), b(0, options, loop) {}

  void Connect() {
    const Bound at_a = a.Bind(), at_b = b.Bind();
    ASSERT_TRUE(at_a.status.ok()) << at_a.status.What();
    ASSERT_TRUE(at_b.status.ok()) << at_b.status.What();
    const Status from_a = a.Connect(at_b.url), from_b = b.Connect(at_a.url);
    ASSERT_TRUE(from_a.ok()) << from_a.What();
    ASSERT_TRUE(from_b.ok()) << from_b.What();
  }

  RdmaTransport a, b;
};

#define EXPECT_SUCCESS(status) EXPECT_EQ((status).What(), "success")
#define ASSERT_SUCCESS(status) ASSERT_EQ((status).What(), "success")

}  // namespace warpverbs::transport
