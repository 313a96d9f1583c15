#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "common/open_files.hpp"
#include "host/endpoint/fault_calls.hpp"

/// Every call that sets something up fails once, and so does every allocation of memory: what comes of it is
/// an exception that says what failed, nothing is left behind, and the next attempt succeeds.
namespace warpverbs::host {

/// Throws what ForEachFault() does not take for a fault's.
void Demand(bool ok, const char* what);

/// What is held at some time.
struct Holdings {
  std::string verbs = HeldByVerbs();
  size_t files = OpenFiles();
  long blocks = HeldBlocks();  // last, so that `verbs` counts

  /// @param blocks_now  taken before the caller allocates anything else
  void ExpectStill(long blocks_now) const {
    EXPECT_EQ(blocks_now, blocks) << "blocks of memory";
    EXPECT_EQ(OpenFiles(), files);
    EXPECT_EQ(HeldByVerbs(), verbs);
  }
};

/// Runs a scenario with a fault. What it throws must say enough.
///
/// @return  the name of the call that failed; empty: there were fewer calls
const char* RunWith(const CallFault& fault, const std::function<void()>& scenario);

/// Runs a scenario again and again, each time with another call failing, until none is left to fail.
///
/// @param again  what must succeed after a failure
/// @return       how many calls there are
int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario,
                 const std::function<void()>& again);
int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario);

class Faults : public testing::TestWithParam<FaultyCalls> {};

}  // namespace warpverbs::host
