#pragma once

namespace warpverbs::tests {

/// Returns how often to repeat a step with random input: an eighth of `count` in a build with a sanitizer, where a step takes
/// ten times as long and the first thousands find what there is.
constexpr int Repetitions(int count) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return count / 8;
#else
  return count;
#endif
}

}  // namespace warpverbs::tests
