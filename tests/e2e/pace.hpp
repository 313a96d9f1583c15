#pragma once

#include <cstddef>

namespace warpverbs::e2e {

/// Number of writes of a long test. A sanitizer slows each write down, but even then the 16-bit index wraps.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr size_t kManyWrites = 70'000;
inline constexpr size_t kMaxWrites = 200'000;
#else
inline constexpr size_t kManyWrites = 1'000'000;
inline constexpr size_t kMaxWrites = 10'000'000;
#endif
static_assert(kManyWrites > 65536);

}  // namespace warpverbs::e2e
