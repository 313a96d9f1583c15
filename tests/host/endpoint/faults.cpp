#include "host/endpoint/faults.hpp"

#include <gmock/gmock.h>

#include <new>
#include <optional>
#include <stdexcept>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

void Require(bool ok, const char* what) {
  if (!ok) throw std::logic_error(what);
}

const char* RunWith(const CallFault& fault, const std::function<void()>& scenario) {
  const Faulty faulty(fault);
  try {
    scenario();
  } catch (const Error& error) {
    EXPECT_FALSE(error.step().empty() || error.object().empty() || error.reason().empty()) << error.what();
    EXPECT_THAT(error.what(), testing::ContainsRegex("^Cannot .*: .*\\. .*\\.$"));
  } catch (const std::bad_alloc&) {
    EXPECT_EQ(fault.calls, FaultyCalls::kMemory);
  }
  return faulty.failed();
}

int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario,
                 const std::function<void()>& again) {
  again();  // makes everything that a program makes only once
  scenario();
  for (int call = 0;; ++call) {
    std::optional<Holdings> before(std::in_place);
    const char* failed = RunWith({.calls = calls, .call = call}, scenario);
    long blocks = HeldBlocks();
    if (blocks != before->blocks) {  // repeats: a leak grows each time, one-time allocations do not
      before.emplace();
      failed = RunWith({.calls = calls, .call = call}, scenario);
      blocks = HeldBlocks();
    }
    SCOPED_TRACE("call " + std::to_string(call) + ", " + failed + ", failed");
    before->ExpectStill(blocks);
    if (*failed == 0) return call;
    EXPECT_NO_THROW(again());
    if (testing::Test::HasFailure()) {
      ADD_FAILURE() << "the remaining calls are skipped";
      return call;
    }
  }
}

int ForEachFault(FaultyCalls calls, const std::function<void()>& scenario) {
  return ForEachFault(calls, scenario, scenario);
}

}  // namespace warpverbs::inline v0_2::host
