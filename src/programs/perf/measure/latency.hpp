#pragma once

#include "perf/measure/statistics.hpp"
#include "perf/options/options.hpp"
#include "perf/party/party.hpp"
#include "perf/talk/talk.hpp"

namespace warpverbs::perf {

/// Measures how long messages of a size take, one at a time: writes and sends to and fro, of which half
/// counts; reads and atomics until their completion. Both sides call it; what comes back is the client's.
///
/// @errors  as MeasureBandwidth()
LatencyFigures MeasureLatency(const Party& party, Talk& talk, const Options& options, uint64_t bytes);

}  // namespace warpverbs::perf
