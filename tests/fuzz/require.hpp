#pragma once

#include <cstdio>
#include <cstdlib>

namespace softhca {

/// Aborts the fuzzer, which records a finding, unless the condition holds.
inline void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "this does not hold: %s\n", what);
  std::abort();
}

}  // namespace softhca
