#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "faults/fault_dice.hpp"
#include "wire/medium.hpp"

namespace softhca {

/// One direction of a faulty medium: frames come out late, twice, changed, in another order or not at all.
class FaultyDirection {
 public:
  /// @param slow_ns  shortest time between two frames; 0: no limit
  FaultyDirection(Direction direction, std::shared_ptr<FaultDice> dice, mlx5::PortType link,
                  uint64_t slow_ns = 0)
      : direction_(direction), dice_(std::move(dice)), link_(link), slow_ns_(slow_ns) {}

  /// Takes a frame, and passes to `out` what comes out at once.
  void Take(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out);
  /// Passes to `out` the delayed frames that are due.
  ///
  /// @return  the number of frames
  size_t Release(uint64_t now_ns, const FrameSink& out);
  /// Reports the frames that faults lose from now on.
  void ReportLosses(const LossSink& sink) { losses_ = sink; }
  /// Returns when the next delayed frame is due; UINT64_MAX: never.
  uint64_t NextNs() const;

 private:
  using Bytes = std::vector<uint8_t>;

  void Pass(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out);

  Direction direction_;
  std::shared_ptr<FaultDice> dice_;
  mlx5::PortType link_;
  uint64_t slow_ns_;
  LossSink losses_ = [](const char*, uint64_t) {};
  uint64_t free_ns_ = 0;                  ///< time at which a slow receiver takes its next frame
  std::multimap<uint64_t, Bytes> later_;  ///< delayed frames, by due time

  /// Frames that wait for another one to pass, by the time at which they come out without one.
  std::multimap<uint64_t, Bytes> overtaken_;
};

}  // namespace softhca
