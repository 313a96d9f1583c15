#include "faults/fault_dice.hpp"

#include <utility>

namespace softhca {
namespace {

constexpr size_t kFramesRemembered = 1 << 16;

/// Mixes the bits of a number, one to one.
///
/// @source  the finalizer of splitmix64
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

uint64_t Pack(const FrameIdentity& frame) {
  return static_cast<uint64_t>(frame.direction) << 56 | uint64_t{frame.qpn & 0xffffff} << 32 |
         uint64_t{frame.opcode} << 24 | (frame.psn & 0xffffff);
}

/// Maps a random number to [0, 1).
double Fraction(uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

}  // namespace

FaultDice::FaultDice(const FaultPlan& plan)
    : rules_(plan.frames), matches_(rules_.size()), seed_(plan.seed) {}

uint32_t FaultDice::CountSeen(uint64_t frame) {
  if (seen_.size() == kFramesRemembered) seen_before_ = std::exchange(seen_, {});
  const auto [place, fresh] = seen_.try_emplace(frame, 0);
  if (const auto before = seen_before_.find(frame); fresh && before != seen_before_.end()) {
    place->second = before->second;
  }
  return ++place->second;
}

bool FaultDice::Applies(size_t rule, const FrameIdentity& frame, uint64_t random) {
  const FrameFault& fault = rules_[rule];
  if (fault.direction != frame.direction || (fault.opcode && *fault.opcode != frame.opcode) ||
      (fault.qpn && *fault.qpn != frame.qpn)) {
    return false;
  }
  if (fault.nth != 0 && ++matches_[rule] != fault.nth) return false;
  return Fraction(random) < fault.probability;
}

FrameFate FaultDice::Roll(const FrameIdentity& frame) {
  const uint64_t packed = Pack(frame);
  const uint32_t times = CountSeen(packed);
  FrameFate fate;
  for (size_t i = 0; i < rules_.size(); ++i) {
    const uint64_t random = Mix(Mix(Mix(seed_ + i) ^ packed) ^ times);
    if (!Applies(i, frame, random)) continue;
    switch (rules_[i].kind) {
      case FrameFault::Kind::kDrop:
        fate.drop = true;
        break;
      case FrameFault::Kind::kDuplicate:
        fate.duplicate = true;
        break;
      case FrameFault::Kind::kReorder:
        fate.reorder_ns = rules_[i].by_ns;
        break;
      case FrameFault::Kind::kCorrupt:
        fate.corrupt = Mix(random);
        break;
      case FrameFault::Kind::kFlip:
        fate.flip = Mix(random);
        break;
      case FrameFault::Kind::kDelay:
        fate.delay_ns += rules_[i].by_ns;
        break;
    }
  }
  return fate;
}

}  // namespace softhca
