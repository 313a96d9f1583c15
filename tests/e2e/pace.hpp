#pragma once

#include <cstddef>

#include "common/repetitions.hpp"

namespace warpverbs::e2e {

/// Number of writes of a long test. A sanitizer slows each write down, but even then the 16-bit index wraps.
inline constexpr size_t kManyWrites = tests::kSanitized ? 70'000 : 1'000'000;
inline constexpr size_t kMaxWrites = tests::kSanitized ? 200'000 : 2'000'000;
static_assert(kManyWrites > 65536);

}  // namespace warpverbs::e2e
