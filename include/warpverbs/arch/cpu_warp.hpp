#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include "warpverbs/arch/cpu_place.hpp"

namespace warpverbs::inline v0_2::arch::cpu {

/// The threads that stand for the lanes of a warp. Several masks of it may meet at a time.
class Warp {
 public:
  explicit Warp(uint32_t lanes) : lanes_(~LaneMask{0} >> (kMaxLanes - lanes)) {}

  /// Place::AllGather() of `lane`.
  ///
  /// @errors  std::logic_error: a lane of `mask` has ended and will not come
  LaneValues AllGather(uint32_t lane, LaneMask mask, uint64_t value) {
    const LaneMask self = LaneMask{1} << lane;
    Require((mask & self) != 0, "a lane names a mask that lacks itself");
    Require((mask & ~lanes_) == 0, "a lane names lanes that its warp does not have");
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Meeting> meeting = Join(self, mask);
    meeting->values[lane] = value;
    meeting->here |= self;
    if (meeting->here == mask) Dissolve(mask);
    changed_.wait(lock, [&] { return meeting->here == mask || (mask & ended_) != 0; });
    if (meeting->here == mask) return meeting->values;
    Dissolve(mask);
    throw std::logic_error("lane " + std::to_string(lane) + " waits for a lane of its warp that has ended");
  }

  void End(uint32_t lane) {
    const std::scoped_lock lock(mutex_);
    ended_ |= LaneMask{1} << lane;
    changed_.notify_all();
  }

 private:
  struct Meeting {
    LaneMask here = 0;
    LaneValues values{};
  };

  std::shared_ptr<Meeting> Join(LaneMask self, LaneMask mask) {
    for (const auto& [other, meeting] : meetings_) {
      Require(other == mask || (other & self) == 0 || (meeting->here & mask) == 0,
              "two lanes wait for each other with different masks");
    }
    std::shared_ptr<Meeting>& meeting = meetings_[mask];
    if (meeting == nullptr) meeting = std::make_shared<Meeting>();
    return meeting;
  }

  void Dissolve(LaneMask mask) {
    meetings_.erase(mask);
    changed_.notify_all();
  }

  const LaneMask lanes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LaneMask, std::shared_ptr<Meeting>> meetings_;  // that some lanes have not come to yet
  LaneMask ended_ = 0;
};

}  // namespace warpverbs::inline v0_2::arch::cpu
