#pragma once

namespace warpverbs::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns how often to repeat a step: an eighth of `count` in a build with a sanitizer, where a step takes
/// ten times as long and the first thousands find what there is.
constexpr int Repetitions(int count) { return kSanitized ? count / 8 : count; }

}  // namespace warpverbs::tests
