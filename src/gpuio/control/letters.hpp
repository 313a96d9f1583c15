#pragma once

#include <algorithm>
#include <string_view>

namespace warpverbs::inline v0_2::gpuio {

/// Compares ASCII texts, with letters of either case as equal.
inline bool AreEqualInAnyCase(std::string_view one, std::string_view other) {
  const auto lower = [](char letter) { return letter >= 'A' && letter <= 'Z' ? char(letter + 32) : letter; };
  return std::ranges::equal(one, other, {}, lower, lower);
}

}  // namespace warpverbs::inline v0_2::gpuio
