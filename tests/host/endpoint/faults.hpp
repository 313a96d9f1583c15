#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/open_files.hpp"
#include "host/endpoint/fault_calls.hpp"

/// Fails every set-up call and every allocation once. The result must be an exception that names the failure,
/// without leaks, and the next attempt must succeed.
namespace warpverbs::inline v0_2::host {

/// Throws an exception that ForEachFault() does not mistake for an injected failure.
void Require(bool ok, const char* what);

/// Resources held at some time.
struct Holdings {
  std::string verbs = HeldByVerbs();
  size_t files = OpenFiles();
  long blocks = HeldBlocks();  // last, so that it includes `verbs`

  /// @param blocks_now  read before the caller allocates anything else
  void ExpectStill(long blocks_now) const {
    EXPECT_EQ(blocks_now, blocks) << "blocks of memory";
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_EQ(HeldByVerbs(), verbs);
  }
};

/// Runs a scenario with a fault. Its exception must name the failure.
///
/// @return  name of the failed call; empty if there were fewer calls
const char* RunWith(const CallFault& fault, const std::function<void()>& scenario);

/// Repeats a scenario with each call failing once.
///
/// @param again  must succeed after a failure
/// @return       number of calls
int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario,
                 const std::function<void()>& again);
int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario);

class Faults : public testing::TestWithParam<FaultyCalls> {};

}  // namespace warpverbs::inline v0_2::host
