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

/// The threads that act as the lanes of a warp. Several masks may gather at a time.
class Warp {
 public:
  explicit Warp(uint32_t lanes) : lanes_(~LaneMask{0} >> (kMaxLanes - lanes)) {}

  LaneMask lanes() const { return lanes_; }

  /// Implements Place::AllGather() for `lane`.
  ///
  /// @errors  std::logic_error: a lane of `mask` has ended and will not come
  LaneValues AllGather(uint32_t lane, LaneMask mask, uint64_t value) {
    const LaneMask self = LaneMask{1} << lane;
    Require((mask & self) != 0, "a lane names a mask that lacks itself");
    Require((mask & ~lanes_) == 0, "a lane names lanes that its warp does not have");
    std::unique_lock lock(mutex_);
    const std::shared_ptr<Gathering> gathering = Join(self, mask);
    gathering->values[lane] = value;
    gathering->here |= self;
    if (gathering->here == mask) Dissolve(mask);
    changed_.wait(lock, [&] { return gathering->here == mask || (mask & ended_) != 0; });
    if (gathering->here == mask) return gathering->values;
    Dissolve(mask);
    throw std::logic_error("lane " + std::to_string(lane) + " waits for a lane of its warp that has ended");
  }

  void End(uint32_t lane) {
    const std::scoped_lock lock(mutex_);
    ended_ |= LaneMask{1} << lane;
    changed_.notify_all();
  }

 private:
  struct Gathering {
    LaneMask here = 0;
    LaneValues values{};
  };

  std::shared_ptr<Gathering> Join(LaneMask self, LaneMask mask) {
    for (const auto& [other, gathering] : gatherings_) {
      Require(other == mask || (other & self) == 0 || (gathering->here & mask) == 0,
              "two lanes wait for each other with different masks");
    }
    std::shared_ptr<Gathering>& gathering = gatherings_[mask];
    if (gathering == nullptr) gathering = std::make_shared<Gathering>();
    return gathering;
  }

  void Dissolve(LaneMask mask) {
    gatherings_.erase(mask);
    changed_.notify_all();
  }

  const LaneMask lanes_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<LaneMask, std::shared_ptr<Gathering>> gatherings_;  // those that some lanes have not joined yet
  LaneMask ended_ = 0;
};

}  // namespace warpverbs::inline v0_2::arch::cpu
