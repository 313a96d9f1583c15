#pragma once

#include "perf/control/control_channel.hpp"
#include "perf/measure/statistics.hpp"
#include "perf/options/options.hpp"
#include "perf/side/side.hpp"

namespace warpverbs::perf {

/// Measures the bandwidth and rate of messages of one size. Both sides call it.
///
/// @return  the client's figures, on both sides; with both directions the sum of both sides
/// @errors  Error: a queue failed, or nothing arrived; std::runtime_error: data arrived changed;
///          as ControlChannel
BandwidthFigures MeasureBandwidth(PerfSide& side, ControlChannel& control, const Options& options,
                                  uint64_t bytes);

/// Measures the latency of messages of one size, one at a time. Both sides call it.
///
/// Writes and sends: half of a round trip. Reads and atomics: from post to completion.
///
/// @return  the client's figures, on both sides
/// @errors  as MeasureBandwidth()
LatencyFigures MeasureLatency(const PerfSide& side, ControlChannel& control, const Options& options,
                              uint64_t bytes);

}  // namespace warpverbs::perf
