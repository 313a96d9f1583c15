#pragma once

#include "perf/measure/statistics.hpp"
#include "perf/options/options.hpp"
#include "perf/party/party.hpp"
#include "perf/talk/talk.hpp"

namespace warpverbs::perf {

/// Measures bandwidth and rate of messages of a size. Both sides call it; what comes back is the client's,
/// and with both directions the sum of both sides'.
///
/// @errors  Error: a queue failed, or nothing came; std::runtime_error: data arrived changed; as Talk
BandwidthFigures MeasureBandwidth(Party& party, Talk& talk, const Options& options, uint64_t bytes);

}  // namespace warpverbs::perf
