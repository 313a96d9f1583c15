#include "queue/doorbell_choice.hpp"

#include <utility>

#include "log/log.hpp"
#include "queue/doorbell_mapping.hpp"
#include "queue/uar.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/doorbell_thread.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

DoorbellChoice ForGpu(const Gpu& gpu, uint64_t* doorbell) {
  const auto mapping = std::make_shared<const DoorbellMapping>(gpu, doorbell);
  std::string why =
      "mapped for " + gpu.name() + " as " + (mapping->as_io_memory() ? "I/O" : "plain") + " memory";
  return {DoorbellMode::kGpu, std::move(why), mapping->doorbell(), mapping};
}

}  // namespace

DoorbellChoice ChooseDoorbell(DoorbellMode asked, const Gpu* gpu, uint64_t* doorbell) {
  switch (asked) {
    case DoorbellMode::kAuto:
      if (gpu == nullptr) return {DoorbellMode::kGpu, "the CPU rings, and the register is mapped", doorbell};
      try {
        return ForGpu(*gpu, doorbell);
      } catch (const Error& error) {
        const std::string why = gpu->name() + " cannot reach the register: " + error.reason();
        WarnOnce("doorbell registers for " + gpu->name(),
                 "a host thread rings them; " + why + ". " + error.remedy() + ".");
        return {.mode = DoorbellMode::kHostProxy, .why = why};
      }
    case DoorbellMode::kGpu:
      if (gpu == nullptr) return {DoorbellMode::kGpu, "as asked", doorbell};
      return ForGpu(*gpu, doorbell);
    case DoorbellMode::kHostProxy:
    case DoorbellMode::kHostPosts:
      break;
    default:
      throw Error("create", "an endpoint", "the doorbell mode is invalid", "Choose one of DoorbellMode");
  }
  return {.mode = asked, .why = "as asked"};
}

DoorbellReach ProbeDoorbell(const Device& device, const Gpu& gpu) {
  const Uar uar(device.context());
  const DoorbellChoice choice = ChooseDoorbell(DoorbellMode::kAuto, &gpu, uar.doorbell());
  return {.mapped = choice.mode == DoorbellMode::kGpu, .why = choice.why};
}

const char* ToString(DoorbellMode mode) {
  switch (mode) {
    case DoorbellMode::kAuto:
      return "chosen by a probe";
    case DoorbellMode::kGpu:
      return "rung by the poster";
    case DoorbellMode::kHostProxy:
      return "rung by a host thread";
    case DoorbellMode::kHostPosts:
      return "rung by a host thread, which copies the WQEs too";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
