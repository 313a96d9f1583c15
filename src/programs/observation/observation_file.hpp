#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "warpverbs/host/observation.hpp"

/// Files of host::SaveObservations().
namespace warpverbs::programs {

struct ObservedQueue {
  std::string device{};
  int port = 0;
  uint32_t qpn = 0;
  bool on_gpu = false;  ///< whether times are of a GPU's clock; otherwise of CLOCK_MONOTONIC
  device::QueueCounters counters{};
  std::vector<host::TracedStep> trace{};
};

struct ObservationFile {
  std::string program{};
  int pid = 0;
  std::vector<ObservedQueue> queues{};
};

/// Names of device::Stall, in its order.
inline constexpr const char* kStallNames[device::kStallCauses] = {"full", "turn", "completion"};

/// @errors  std::runtime_error: the file cannot be read, or SaveObservations() has not written it
ObservationFile ReadObservations(const std::string& file);

/// Returns the counters as Prometheus's text format, version 0.0.4: each queue has its program, process,
/// device, port and queue pair as labels.
std::string MetricsText(const std::vector<ObservationFile>& files);

}  // namespace warpverbs::programs
