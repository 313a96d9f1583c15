#pragma once

#include <cstdint>
#include <span>

/// What is made of the times that were taken. Pure: nothing here waits, prints or reads a clock.
namespace warpverbs::perf {

/// Messages of one or more rounds, of all flows.
struct BandwidthFigures {
  uint64_t bytes = 0;     ///< of a message
  uint64_t messages = 0;  ///< of all flows
  double average = 0;     ///< bytes a second
  double peak = 0;        ///< likewise; 0: not taken
  double rate = 0;        ///< messages a second
};

/// @param ns  from the first post to the last completion
BandwidthFigures AverageOf(uint64_t bytes, uint64_t messages, uint64_t ns);

/// The best rate of any run of messages, in bytes a second: from the post of message i until the completion
/// of message j, the best of (j - i + 1) messages in that time.
///
/// @param posted     when each message was posted, in ns, in order
/// @param completed  when each was seen to be complete, as many, in order; none before its post
double PeakOf(uint64_t bytes, std::span<const uint64_t> posted, std::span<const uint64_t> completed);

/// Of messages one at a time, in microseconds.
struct LatencyFigures {
  uint64_t bytes = 0;
  uint64_t messages = 0;
  double min = 0, max = 0, typical = 0, average = 0, deviation = 0;
  double p99 = 0, p999 = 0;
};

/// @param ns    each message took, with its answer if it has one
/// @param ways  how often each went: 2 to and fro, of which half counts
LatencyFigures LatencyOf(uint64_t bytes, std::span<const uint64_t> ns, uint32_t ways);

/// The least sample that at least a share of all do not exceed.
///
/// @param sorted  at least one, ascending
/// @param share   above 0, up to 1
double Quantile(std::span<const double> sorted, double share);

}  // namespace warpverbs::perf
