#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace warpverbs::host {

/// When a call gives up.
using Deadline = std::chrono::steady_clock::time_point;

/// A time from now. What is longer than the clock can tell is for ever, not long ago.
inline Deadline DeadlineIn(std::chrono::nanoseconds time) {
  const Deadline now = std::chrono::steady_clock::now();
  return time < Deadline::max() - now ? now + time : Deadline::max();
}

/// The longest message that the library's exchanges carry. A longer one is refused before memory is
/// allocated.
constexpr size_t kMaxSwapBytes = size_t{64} << 20;

/// A way to one peer before there is RDMA: TcpExchange, MpiExchange, or whatever a program has.
///
/// Both sides swap equally often and in the same order. What an implementation must promise: messages come
/// whole, once and in order, or an Error comes. Not thread-safe.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Sends a message, and returns the peer's.
  ///
  /// @param mine      maybe empty; must not wait for the peer's reading it, which may be sending, too
  /// @param what      what it is, for the error: "the descriptions of 100 endpoints"
  /// @param deadline  of both directions
  /// @errors  Error: says who was waited for, for what and how long, or why there is no sense in waiting; no
  ///          further swap need succeed
  virtual std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                                    Deadline deadline) = 0;

  /// Who that is, in the middle of a sentence: "10.0.0.2 port 18517".
  virtual std::string PeerName() const { return "the peer"; }

 protected:
  Exchange() = default;
  Exchange(const Exchange&) = default;
  Exchange& operator=(const Exchange&) = default;
};

}  // namespace warpverbs::host
