#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "gpuio/ring/layout.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// What a ring is for, as its name on the mount says.
struct RingConfig {
  bool for_read = true;
  int io_depth = 0;  ///< see struct hf3fs_ior
  int priority = 0;
  int timeout_ms = 0;
  uint64_t flags = 0;

  friend bool operator==(const RingConfig&, const RingConfig&) = default;
};

/// A request that was taken from a ring.
struct TakenIo {
  int slot = 0;
  IoArgs args;
};

/// The daemon's side of a ring, whose other side may be hostile: every word is copied once, then checked.
///
/// A ring whose words make no sense is broken: nothing is taken from it any more. Not thread-safe.
class RingConsumer {
 public:
  using Clock = std::chrono::steady_clock;

  /// Continues where an earlier daemon stopped, and opens a ring that it closed.
  RingConsumer(const RingMemory& memory, const RingConfig& config);

  const RingConfig& config() const { return config_; }
  int entries() const { return memory_.entries(); }

  /// Takes one batch, as io_depth and the room for completions allow.
  ///
  /// @return  empty: no batch may start now; see deadline()
  std::vector<TakenIo> Take(Clock::time_point now);

  /// Returns when a partial batch may start, if one waits.
  std::optional<Clock::time_point> deadline() const { return deadline_; }

  /// Completes a request, in any order, and wakes the waiting thread.
  void Complete(int slot, int64_t result);

  /// Tells the application that no more requests are taken or completed, and wakes the waiting thread.
  void Close();

  int in_flight() const { return in_flight_; }

  /// Returns why the ring is broken; empty: it is not.
  const std::string& fault() const { return fault_; }

 private:
  /// Returns the requests that wait, and how many more completions have room.
  ///
  /// @return  false: broken
  bool Look(int& waiting, int& room);
  int BatchSize(int waiting, int room, Clock::time_point now);
  bool Break(const char* what, int64_t value);

  RingMemory memory_;
  RingConfig config_;
  int sqe_tail_ = 0, cqe_head_ = 0;  // the daemon's own: what the memory says is not read back
  int in_flight_ = 0;
  std::vector<bool> taken_;
  std::vector<uint64_t> userdata_;
  std::optional<Clock::time_point> deadline_;
  std::string fault_;
};

}  // namespace warpverbs::inline v0_2::gpuio
