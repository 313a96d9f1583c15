#pragma once

#include <cstdint>
#include <span>

#include "soak/bytes.hpp"

namespace soak {

/// Repeatable choices: the same seed gives the same ones in every process.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() { return Mix(state_++); }

  /// Returns a number below `end`, which is not 0.
  uint64_t Below(uint64_t end) { return Next() % end; }
  uint32_t Between(uint32_t first, uint32_t last) {
    return first + static_cast<uint32_t>(Below(uint64_t{last} - first + 1));
  }
  bool Chance(uint32_t percent) { return Below(100) < percent; }

  template <class T, size_t kCount>
  T Pick(const T (&choices)[kCount]) {
    return choices[Below(kCount)];
  }

  /// Returns the seed of choices of their own, which those of this do not shift.
  uint64_t Fork() { return Mix(Next()); }

 private:
  uint64_t state_;
};

/// Returns the seed of one of several things that were numbered.
constexpr uint64_t SeedOf(uint64_t seed, uint64_t number) { return Mix(Mix(seed) + number); }

}  // namespace soak
