#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/fabric.hpp"
#include "perf/device/work.hpp"
#include "perf/initiator/initiator.hpp"
#include "perf/party/memory.hpp"
#include "warpverbs/host/endpoint_config.hpp"

namespace warpverbs::perf {

enum class Measure : uint8_t { kBandwidth, kLatency, kRate };
enum class InitiatorKind : uint8_t { kCpu, kGpu };

/// What the command line asks for, complete: where it was silent, the defaults stand here.
struct Options {
  Verb verb = Verb::kWrite;
  Measure measure = Measure::kBandwidth;
  std::string host{};  ///< of the server; empty: this is the server
  uint16_t tcp_port = 18515;
  bool rdma_cm = false;

  programs::Fabric fabric{};
  uint8_t nic_port = 0;  ///< 0: the first active one
  uint32_t mtu = 0;      ///< in bytes; 0: the least of both ports'
  std::optional<uint8_t> ack_timeout{}, retry_count{}, hop_limit{};
  uint16_t pkey_index = 0;

  std::vector<uint64_t> sizes{};  ///< of messages in bytes, ascending
  bool all_sizes = false;
  uint32_t iterations = 0;  ///< of each queue pair; 0: by duration
  double duration_s = 0, margin_s = 0;
  uint32_t tx_depth = 128, rx_depth = 512;
  uint32_t cq_mod = 0;  ///< 0: by size
  uint32_t qps = 1;
  uint32_t inline_bytes = 0;
  bool bidirectional = false;
  bool no_peak = false;
  bool warm_up = false;
  bool data_validation = false;
  std::chrono::seconds patience{30};

  std::vector<InitiatorKind> initiators{InitiatorKind::kCpu};
  Posting posting{};
  host::Placement placement = host::Placement::kProbe;
  MemoryChoice memory{};

  bool gbits = false;
  std::string json_file{};  ///< empty: none
  bool verbose = false;
  std::optional<double> min_bandwidth{};  ///< in the unit of the report
  std::optional<double> max_p99_us{};

  std::string plot_file{};  ///< not empty: draw these, and measure nothing
  std::vector<std::string> plotted{};

  bool is_client() const { return !host.empty(); }
  bool is_latency() const { return measure == Measure::kLatency; }
  /// Whether each message of a latency is answered by one of the other side.
  bool is_answered() const { return verb == Verb::kWrite || verb == Verb::kSend; }
  /// Whether this side posts messages.
  bool posts() const { return is_client() || bidirectional || (is_latency() && is_answered()); }
  bool is_atomic() const { return verb == Verb::kFetchAdd || verb == Verb::kCompareSwap; }
  /// Of messages of a size: what is asked for, or what perftest takes.
  uint32_t CqModFor(uint64_t bytes) const;
  /// How deep the send queues are, in messages.
  uint32_t Depth() const;
};

/// Text to print in place of running, and the exit status.
struct Answer {
  std::string text{};
  int exit_status = 0;
};

/// Reads a command line. Which option comes first makes no difference.
///
/// @return  options that contradict each other in nothing, or a sentence that says what is wrong
std::variant<Options, Answer> ParseOptions(int argc, const char* const* argv);

const char* ToString(Verb verb);
const char* ToString(Measure measure);
const char* ToString(CallScope scope);

}  // namespace warpverbs::perf
