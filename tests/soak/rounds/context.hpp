#pragma once

#include <chrono>
#include <exception>
#include <string>

#include "soak/rounds/board.hpp"
#include "soak/rounds/plan.hpp"
#include "soak/rounds/troubles.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace soak {

/// A side of a round, as its process sees it.
struct Context {
  const RoundPlan& plan;
  Board& board;
  uint32_t side;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();

  Side& own() const { return board.sides[side]; }
  Side& other() const { return board.sides[1 - side]; }
  Counts& counts() const { return board.counts; }

  /// Returns whether the other side's process has ended, or could not be set up.
  bool PeerIsGone() const;

  /// Waits until the other side is here, too, or gone. The controller ends a wait that lasts too long.
  void Meet() const;

  /// Ends a life: waits for the other side, and lets both agree on whether another one follows.
  ///
  /// @param life  counts from 1
  bool MeetForAnotherLife(uint32_t life) const;

  /// Waits for a text of this life.
  ///
  /// @errors  std::runtime_error: the peer is gone
  std::string Await(const Text& text, uint64_t life) const;

  /// Returns whether the troubles of either side, or its deeds on a pair, explain one of the consequences.
  ///
  /// @param consequences  of Consequence
  bool Explains(uint32_t consequences, uint32_t pair) const;

  /// Returns whether a set-up may fail, because of what was done to either side, or the peer has ended.
  bool ExcusesRefusal() const;

  /// Returns whether a NIC gives up so soon that a busy machine explains it.
  bool IsImpatient(const warpverbs::host::RetryConfig& retry) const;
};

/// Reports a failure, and ends the process at once: the first failure is the one that counts.
[[noreturn]] void Fail(const Context& context, const std::string& what);

/// Ends the process as one that its limits stop, or fails if it has none.
[[noreturn]] void Refuse(const Context& context, const std::exception& why);

/// Runs one side of a round of the kind.
void RunEndpoints(const Context& context);
void RunTransports(const Context& context);

}  // namespace soak
