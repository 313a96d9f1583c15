#include "warpverbs/host/doorbell_rung.hpp"

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

DoorbellChoice ChooseDoorbell(DoorbellRung asked, const DoorbellProbe& probe, uint64_t* doorbell) {
  const bool reachable = asked > DoorbellRung::kDevice || !probe || probe(doorbell);
  switch (asked) {
    case DoorbellRung::kProbe:
      if (!probe) return {DoorbellRung::kDevice, "the CPU rings, and the register is mapped"};
      return reachable ? DoorbellChoice{DoorbellRung::kDevice, "the probe reached the register"}
                       : DoorbellChoice{DoorbellRung::kHostRings, "the probe did not reach the register"};
    case DoorbellRung::kDevice:
      if (!reachable) {
        throw Error("create", "an endpoint whose posters ring the NIC's doorbell register themselves",
                    "the probe says that they cannot reach it",
                    "Choose DoorbellRung::kProbe or kHostRings, or let the processor map the register");
      }
      break;
    case DoorbellRung::kHostRings:
    case DoorbellRung::kHostPosts:
      break;
    default:
      throw Error("create", "an endpoint", "there is no such doorbell rung", "Choose one of DoorbellRung");
  }
  return {asked, "as asked"};
}

const char* ToString(DoorbellRung rung) {
  switch (rung) {
    case DoorbellRung::kProbe:
      return "chosen by a probe";
    case DoorbellRung::kDevice:
      return "rung by the poster";
    case DoorbellRung::kHostRings:
      return "rung by a host thread";
    case DoorbellRung::kHostPosts:
      return "rung by a host thread, which copies the WQEs too";
  }
  return "unknown";
}

}  // namespace warpverbs::host
