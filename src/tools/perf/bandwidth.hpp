#pragma once

#include "perf/options.hpp"
#include "perf/party.hpp"
#include "perf/statistics.hpp"
#include "perf/talk.hpp"

namespace warpverbs::perf {

/// Measures bandwidth and rate of messages of a size. Both sides call it; what comes back is the client's,
/// and with both directions the sum of both sides'.
///
/// @errors  Error: a queue failed, or nothing came; std::runtime_error: data arrived changed; as Talk
BandwidthFigures MeasureBandwidth(Party& party, Talk& talk, const Options& options, uint64_t bytes);

}  // namespace warpverbs::perf
