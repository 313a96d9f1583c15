#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_cuda.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

/// Repeats a scenario with each call of the driver failing once.
///
/// The scenario must succeed or throw an Error with a complete sentence, without leaks.
///
/// @return  number of calls
template <class Scenario>
int ForEachFailure(const Scenario& scenario) {
  const fake_cuda::Held before = fake_cuda::HeldNow();
  for (int nth = 1;; ++nth) {
    fake_cuda::FailAnyCall(nth);
    try {
      scenario();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
    }
    const bool all_failed = fake_cuda::FailurePending();
    fake_cuda::FailAnyCall(0);
    EXPECT_EQ(fake_cuda::HeldNow(), before) << "after a failure of call " << nth;
    EXPECT_EQ(fake_cuda::ContextDepth(), 0) << "after a failure of call " << nth;
    if (all_failed) return nth - 1;
  }
}

}  // namespace warpverbs::inline v0_2::host
