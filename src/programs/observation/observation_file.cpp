#include "observation/observation_file.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace warpverbs::programs {
namespace {

using Json = nlohmann::json;

constexpr int kObservationVersion = 1;

device::QueueCounters CountersOf(const Json& json) {
  device::QueueCounters counters{.posts = json.at("posts"),
                                 .wqebbs = json.at("wqebbs"),
                                 .doorbells = json.at("doorbells"),
                                 .elided = json.at("elided"),
                                 .polls = json.at("polls"),
                                 .stalls = {}};
  for (uint32_t cause = 0; cause < device::kStallCauses; ++cause) {
    const Json& stall = json.at("stalls").at(kStallNames[cause]);
    counters.stalls[cause] = {stall.at("count"), stall.at("total_ns"), stall.at("longest_ns")};
  }
  return counters;
}

host::TracedStep StepOf(const Json& json) {
  const uint32_t kind = json.at(0);
  if (kind >= device::kTraceKinds) throw std::runtime_error("an event of kind " + std::to_string(kind));
  return {static_cast<device::TraceKind>(kind),
          {.time_ns = json.at(2), .value = json.at(3), .index = json.at(1)}};
}

ObservedQueue QueueOf(const Json& json) {
  ObservedQueue queue{.device = json.at("device"),
                      .port = json.at("port"),
                      .qpn = json.at("qpn"),
                      .on_gpu = json.at("clock") == "gpu",
                      .counters = CountersOf(json.at("counters"))};
  for (const Json& step : json.at("trace")) queue.trace.push_back(StepOf(step));
  return queue;
}

}  // namespace

ObservationFile ReadObservations(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    throw std::runtime_error("Cannot read " + file + ": " + std::strerror(errno) +
                             ". Name a file that host::SaveObservations() has written.");
  }
  try {
    const Json json = Json::parse(stream);
    if (json.at("version") != kObservationVersion) throw std::runtime_error("its version is another");
    ObservationFile observed{.program = json.at("program"), .pid = json.at("pid")};
    for (const Json& queue : json.at("queues")) observed.queues.push_back(QueueOf(queue));
    return observed;
  } catch (const std::exception& error) {
    throw std::runtime_error("Cannot read " + file +
                             ": it is no file of host::SaveObservations() of this version (" + error.what() +
                             "). Save it by the library of this version.");
  }
}

}  // namespace warpverbs::programs
