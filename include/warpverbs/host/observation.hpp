#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "warpverbs/device/observation.hpp"
#include "warpverbs/version.hpp"

/// What SendQueues with device::Counted and device::Traced leave for the host: Endpoint::Counters(),
/// Endpoint::Trace().
namespace warpverbs::inline v0_2::host {

class Endpoint;

/// A step of a post, as a poster has stored it.
struct TracedStep {
  device::TraceKind kind;
  device::TraceEvent event;
};

/// Writes the counters and the events of endpoints to a file, for `warpverbs-info --metrics`.
/// The file is replaced at once, so that a reader never finds half of it.
///
/// The format is JSON, and docs/observing.md describes it.
///
/// @pre     any thread may call it while kernels run, but none during Connect() or Reset() of an endpoint
/// @errors  Error: the file cannot be written; queues are on a GPU whose driver has failed
WARPVERBS_EXPORT void SaveObservations(const std::string& file, std::span<const Endpoint* const> endpoints);

}  // namespace warpverbs::inline v0_2::host
