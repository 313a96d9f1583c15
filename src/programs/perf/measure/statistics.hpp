#pragma once

#include <cstdint>
#include <span>

/// Statistics of the recorded times: pure functions.
namespace warpverbs::perf {

/// Bandwidth and rate of all flows, over one or more rounds.
struct BandwidthFigures {
  uint64_t bytes = 0;     ///< size of a message
  uint64_t messages = 0;  ///< messages of all flows
  double average = 0;     ///< bytes a second
  double peak = 0;        ///< bytes a second; 0: not measured
  double rate = 0;        ///< messages a second
};

/// @param ns  time from the first post to the last completion
BandwidthFigures AverageOf(uint64_t bytes, uint64_t messages, uint64_t ns);

/// Returns the highest bandwidth of any run of messages i to j, in bytes a second: their bytes over the time
/// from the post of i to the completion of j.
///
/// @param posted     post times in ns, ascending
/// @param completed  completion times, as many, ascending; each after its post
double PeakOf(uint64_t bytes, std::span<const uint64_t> posted, std::span<const uint64_t> completed);

/// Latencies in microseconds.
struct LatencyFigures {
  uint64_t bytes = 0;
  uint64_t messages = 0;
  double min = 0, max = 0, typical = 0, average = 0, deviation = 0;
  double p99 = 0, p999 = 0;
};

/// @param ns    time of each message, or of its round trip
/// @param ways  2 for round trips, of which half counts; otherwise 1
LatencyFigures LatencyOf(uint64_t bytes, std::span<const uint64_t> ns, uint32_t ways);

/// Returns the smallest sample that at least a share of all samples do not exceed.
///
/// @param sorted  samples, ascending; at least one
/// @param share   above 0, up to 1
double Quantile(std::span<const double> sorted, double share);

}  // namespace warpverbs::perf
