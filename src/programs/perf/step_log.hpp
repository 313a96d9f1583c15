#pragma once

#include <array>
#include <cstdio>

namespace warpverbs::perf {

/// The steps of a run, in this order.
enum class Step {
  kParse,
  kFindDevice,
  kOpenDevice,
  kCheckDevice,
  kCheckLink,
  kMeet,
  kExchangeVersions,
  kExchangeOptions,
  kExchangeAlignment,
  kCheckMtu,
  kAllocate,
  kCreateQueues,
  kExchangeAddresses,
  kConnect,
  kAgreeToRun,
  kRun,
  kAgreeToEnd,
};

inline const char* ToString(Step step) {
  constexpr std::array kNames{
      "parse the command line",
      "find a device",
      "open the device",
      "check the device's capabilities",
      "check the link",
      "meet the peer",
      "exchange versions",
      "exchange options",
      "exchange page and cache line sizes",
      "check the MTU",
      "allocate and register memory",
      "create queues",
      "exchange LIDs, GIDs, QPNs, PSNs, rkeys and addresses",
      "connect the queues, from INIT to RTS",
      "wait until both sides are ready",
      "run, and exchange the figures of each row",
      "wait until both sides have all rows",
  };
  return kNames[static_cast<size_t>(step)];
}

/// Prints each step of a run when it begins, if the user asked for that.
class StepLog {
 public:
  explicit StepLog(bool verbose) : verbose_(verbose) {}
  void Begin(Step step) const {
    if (verbose_) std::fprintf(stderr, "warpverbs-perf: %s\n", ToString(step));
  }

 private:
  bool verbose_;
};

}  // namespace warpverbs::perf
