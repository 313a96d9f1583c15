#pragma once

#include <cstdio>
#include <cstdlib>

namespace softhca {

/// Ends a fuzzer with a finding unless what must hold does.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "this does not hold: %s\n", what);
  std::abort();
}

}  // namespace softhca
