#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/device_selection.hpp"
#include "perf/device/work.hpp"
#include "perf/initiator/initiator.hpp"
#include "perf/side/memory.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace warpverbs::perf {

enum class Measure : uint8_t { kBandwidth, kLatency, kRate };
enum class InitiatorKind : uint8_t { kCpu, kGpu };

/// The settings of a run: a command line with its defaults filled in.
struct Options {
  Verb verb = Verb::kWrite;
  Measure measure = Measure::kBandwidth;
  std::string host{};  ///< the server; empty: this is the server
  uint16_t tcp_port = 18515;
  bool rdma_cm = false;

  programs::DeviceSelection selection{};
  uint8_t nic_port = 0;  ///< 0: the first active port
  uint32_t mtu = 0;      ///< in bytes; 0: the smaller of both ports
  std::optional<uint8_t> ack_timeout{}, retry_count{}, hop_limit{};
  uint16_t pkey_index = 0;

  std::vector<uint64_t> sizes{};  ///< message sizes in bytes, ascending
  bool all_sizes = false;
  uint32_t iterations = 0;  ///< messages of each queue pair; 0: runs for duration_s
  double duration_s = 0, margin_s = 0;
  uint32_t tx_depth = 128, rx_depth = 512;
  uint32_t cq_mod = 0;  ///< 0: depends on the size, see CqModFor()
  uint32_t qps = 1;
  uint32_t inline_bytes = 0;
  bool bidirectional = false;
  bool no_peak = false;
  bool warm_up = false;
  bool data_validation = false;
  std::chrono::seconds timeout{30};
  std::chrono::seconds wait_for_client = std::chrono::hours(1);

  std::vector<InitiatorKind> initiators{InitiatorKind::kCpu};
  Posting posting{};
  host::Placement placement = host::Placement::kProbe;
  MemoryChoice memory{};

  bool gbits = false;
  std::string json_file{};  ///< empty: none
  bool verbose = false;
  std::optional<double> min_bandwidth{};  ///< in the unit of the report
  std::optional<double> max_p99_us{};

  std::string plot_file{};  ///< not empty: draws `plotted` to this file instead of measuring
  std::vector<std::string> plotted{};

  bool is_client() const { return !host.empty(); }
  bool is_latency() const { return measure == Measure::kLatency; }
  /// Returns whether the peer answers each message of a latency test with one of its own.
  bool is_answered() const { return verb == Verb::kWrite || verb == Verb::kSend; }
  /// Returns whether this side posts messages.
  bool posts() const { return is_client() || bidirectional || (is_latency() && is_answered()); }
  bool is_atomic() const { return verb == Verb::kFetchAdd || verb == Verb::kCompareSwap; }
  /// Returns how many messages share a completion, for messages of a size: -Q, or perftest's default.
  uint32_t CqModFor(uint64_t bytes) const;
  /// Returns the depth of the send queues in messages.
  uint32_t Depth() const;
};

const char* ToString(Verb verb);
const char* ToString(Measure measure);
const char* ToString(CallScope scope);

}  // namespace warpverbs::perf
