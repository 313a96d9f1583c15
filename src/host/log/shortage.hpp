#pragma once

#include <algorithm>
#include <array>
#include <cerrno>

namespace warpverbs::inline v0_2::host {

/// Returns whether an errno value reports a shortage of memory or files: a call may succeed later.
inline bool IsShortage(int error_number) {
  constexpr std::array kShort{ENOMEM, EMFILE, ENFILE, ENOBUFS};
  return std::ranges::find(kShort, error_number) != kShort.end();
}

}  // namespace warpverbs::inline v0_2::host
