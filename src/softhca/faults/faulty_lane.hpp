#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "faults/fault_dice.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// One direction of a faulty medium: what goes in comes out late, twice, changed, in another order or not at
/// all.
class FaultyLane {
 public:
  /// @param slow_ns  the least time between two frames; 0: none
  FaultyLane(Direction direction, std::shared_ptr<FaultDice> dice, uint64_t slow_ns = 0)
      : direction_(direction), dice_(std::move(dice)), slow_ns_(slow_ns) {}

  /// Takes a frame, and gives `out` what comes out at once.
  void Take(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out);
  /// Gives `out` what was held back long enough.
  ///
  /// @return  how many
  size_t Release(uint64_t now_ns, const FrameSink& out);
  /// When Release() has something to give; UINT64_MAX: never.
  uint64_t NextNs() const;

 private:
  using Bytes = std::vector<uint8_t>;

  void Pass(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out);

  Direction direction_;
  std::shared_ptr<FaultDice> dice_;
  uint64_t slow_ns_;
  uint64_t free_ns_ = 0;                  ///< when the next frame of a slow lane may come out
  std::multimap<uint64_t, Bytes> later_;  ///< by when they come out
  /// They wait for another frame to pass; by when they come out without.
  std::multimap<uint64_t, Bytes> overtaken_;
};

}  // namespace softhca
