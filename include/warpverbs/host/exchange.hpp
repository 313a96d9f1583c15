#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// When a call gives up.
using Deadline = std::chrono::steady_clock::time_point;

/// Returns a time from now, or Deadline::max() if the clock cannot count that far.
inline Deadline DeadlineIn(std::chrono::nanoseconds time) {
  const Deadline now = std::chrono::steady_clock::now();
  return time < Deadline::max() - now ? now + time : Deadline::max();
}

/// Lets a function end this thread's waits for peers by an exception, while this lives: for programs that
/// handle signals between calls, as interpreters do.
///
/// Exchanges over TCP and ConnectAll() call it at least every 100 ms while they wait, and fail by what it
/// throws. Nests: the newest one counts.
class WARPVERBS_EXPORT WaitCheck {
 public:
  explicit WaitCheck(void (*check)());
  ~WaitCheck();
  WaitCheck(const WaitCheck&) = delete;
  WaitCheck& operator=(const WaitCheck&) = delete;

 private:
  void (*outer_)();
};

/// Makes a peer's text safe for a terminal, which obeys control characters: keeps printable ASCII, replaces
/// every other byte by '?', and cuts the text at `most` bytes.
WARPVERBS_EXPORT std::string PrintableText(std::string_view text, size_t most = 1000);

/// The longest message that the library's exchanges carry. They refuse a longer one before they allocate
/// memory.
constexpr size_t kMaxSwapBytes = size_t{64} << 20;

/// A value that Exchange::Swap() sends as its bytes: neither text, nor a span, nor an address.
template <class T>
concept SwapValue =
    std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T> &&
    !std::ranges::borrowed_range<T> && !std::convertible_to<const T&, std::string_view> &&
    !std::convertible_to<const T&, std::span<const uint8_t>>;

/// A way to one peer before RDMA works: TcpExchange, MpiExchange, or one of the program's own.
///
/// Both sides swap equally often and in the same order. An implementation delivers messages whole, once and
/// in order, or throws Error. Not thread-safe.
class WARPVERBS_EXPORT Exchange {
 public:
  virtual ~Exchange() = default;

  /// Sends a message, and returns the peer's. A class that overrides it hides the overloads below, unless it
  /// has `using Exchange::Swap;`.
  ///
  /// @param mine      may be empty. Sending must not wait until the peer reads: it may be sending, too
  /// @param what      name of the message in errors: "the descriptions of 100 endpoints"
  /// @param deadline  for both directions
  /// @errors  Error: names the peer, the message and the time waited, or why waiting is pointless; later
  ///          swaps may fail, too
  virtual std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what,
                                    Deadline deadline) = 0;

  /// Swaps values of one type, as they are in memory: the peer must be built alike.
  ///
  /// @errors  Error: as above; the peer sent another number of bytes
  template <SwapValue T>
  T Swap(const T& mine, std::string_view what, Deadline deadline) {
    const std::vector<uint8_t> theirs =
        Swap({reinterpret_cast<const uint8_t*>(&mine), sizeof mine}, what, deadline);
    CheckSize(theirs.size(), sizeof mine, what);
    T value{};
    std::memcpy(&value, theirs.data(), sizeof value);
    return value;
  }

  /// Swaps strings; see PrintableText() before you print the peer's.
  template <std::convertible_to<std::string_view> Text>
  std::string Swap(const Text& mine, std::string_view what, Deadline deadline) {
    const std::string_view text = mine;
    const std::vector<uint8_t> theirs =
        Swap({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, what, deadline);
    return {theirs.begin(), theirs.end()};
  }

  /// Names the peer, for the middle of a sentence: "10.0.0.2 port 18517".
  virtual std::string PeerName() const { return "the peer"; }

 protected:
  Exchange() = default;
  Exchange(const Exchange&) = default;
  Exchange& operator=(const Exchange&) = default;

 private:
  void CheckSize(size_t theirs, size_t mine, std::string_view what) const;
};

}  // namespace warpverbs::inline v0_2::host
