#include "warpverbs/host/doorbell_rung.hpp"

#include <utility>

#include "log/log.hpp"
#include "queue/doorbell_mapping.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

DoorbellChoice ForGpu(const Gpu& gpu, uint64_t* doorbell) {
  const auto mapping = std::make_shared<const DoorbellMapping>(gpu, doorbell);
  std::string why =
      "mapped for " + gpu.name() + " as " + (mapping->as_io_memory() ? "I/O" : "plain") + " memory";
  return {DoorbellRung::kDevice, std::move(why), mapping->doorbell(), mapping};
}

}  // namespace

DoorbellChoice ChooseDoorbell(DoorbellRung asked, const Gpu* gpu, uint64_t* doorbell) {
  switch (asked) {
    case DoorbellRung::kProbe:
      if (gpu == nullptr)
        return {DoorbellRung::kDevice, "the CPU rings, and the register is mapped", doorbell};
      try {
        return ForGpu(*gpu, doorbell);
      } catch (const Error& error) {
        const std::string why = gpu->name() + " does not reach the register: " + error.reason();
        WarnOnce("doorbell registers for " + gpu->name(),
                 "a host thread rings them; " + why + ". " + error.remedy() + ".");
        return {.rung = DoorbellRung::kHostRings, .why = why};
      }
    case DoorbellRung::kDevice:
      if (gpu == nullptr) return {DoorbellRung::kDevice, "as asked", doorbell};
      return ForGpu(*gpu, doorbell);
    case DoorbellRung::kHostRings:
    case DoorbellRung::kHostPosts:
      break;
    default:
      throw Error("create", "an endpoint", "there is no such doorbell rung", "Choose one of DoorbellRung");
  }
  return {.rung = asked, .why = "as asked"};
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
