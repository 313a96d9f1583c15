#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "faults/fault_plan.hpp"

namespace softhca {

/// Fields that identify a frame.
struct FrameIdentity {
  Direction direction = Direction::kSent;
  uint8_t opcode = 0;
  uint32_t qpn = 0;  ///< destination
  uint32_t psn = 0;
};

/// Faults of one frame. If it is dropped, the others do not matter.
struct FrameFate {
  bool drop = false;
  bool duplicate = false;
  std::optional<uint64_t> reorder_ns{};  ///< sent after the next frame, or after this time
  std::optional<uint64_t> corrupt{};     ///< random number that selects the bit to flip
  std::optional<uint64_t> flip{};        ///< the same for a payload bit, with a corrected ICRC
  uint64_t delay_ns = 0;
};

/// Decides which faults happen to a frame.
///
/// The decision depends on the seed, the rule, the frame, and how often that frame was seen, but not on other
/// frames. So a run repeats, whatever the scheduling of threads and processes.
class FaultDice {
 public:
  explicit FaultDice(const FaultPlan& plan);

  FrameFate Roll(const FrameIdentity& frame);

 private:
  uint32_t CountSeen(uint64_t frame);
  bool Applies(size_t rule, const FrameIdentity& frame, uint64_t random);

  std::vector<FrameFault> rules_;
  std::vector<uint64_t> matches_;  ///< matches of each rule so far
  uint64_t seed_;
  /// Number of times that each frame was seen. When `seen_` is full it replaces `seen_before_`.
  std::unordered_map<uint64_t, uint32_t> seen_, seen_before_;
};

}  // namespace softhca
