#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "faults/fault_plan.hpp"

namespace softhca {

/// By what frames are told apart.
struct FrameIdentity {
  Direction direction = Direction::kSent;
  uint8_t opcode = 0;
  uint32_t qpn = 0;  ///< that it goes to
  uint32_t psn = 0;
};

/// What is to happen to one frame. A dropped one comes to nothing else.
struct FrameFate {
  bool drop = false;
  bool duplicate = false;
  std::optional<uint64_t> reorder_ns{};  ///< lets the next frame pass, but waits no longer than this
  std::optional<uint64_t> corrupt{};     ///< a random number that chooses the bit
  std::optional<uint64_t> flip{};        ///< likewise, of the payload, and the ICRC is made to fit
  uint64_t delay_ns = 0;
};

/// Decides the fate of frames.
///
/// A throw depends on the seed, the rule, the frame, and how often that frame was seen: not on what came in
/// between, so that a run repeats however threads and processes take turns.
class FaultDice {
 public:
  explicit FaultDice(const FaultPlan& plan);

  FrameFate Judge(const FrameIdentity& frame);

 private:
  uint32_t CountSeen(uint64_t frame);
  bool Applies(size_t rule, const FrameIdentity& frame, uint64_t random);

  std::vector<FrameFault> rules_;
  std::vector<uint64_t> matches_;  ///< of each rule so far
  uint64_t seed_;
  /// How often each frame was seen. The older one is forgotten when the newer one is full.
  std::unordered_map<uint64_t, uint32_t> seen_, seen_before_;
};

}  // namespace softhca
