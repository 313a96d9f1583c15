#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "observation/observation_file.hpp"

/// Traces for Perfetto, from files of host::SaveObservations() and of `softhca --trace`.
namespace warpverbs::programs {

/// Returns what to add to the times of a queue's posters, in ns, so that they fit those of softhca's events.
/// Empty if no event of the queue is in both.
///
/// No doorbell is seen before its post began, and no completion is seen before it was written: both bound the
/// result, which is halfway between.
///
/// @param softhca  events of `softhca --trace`
std::optional<int64_t> ClockOffset(const ObservationFile& file, const ObservedQueue& queue,
                                   const nlohmann::json& softhca);

/// Returns the events of posters, a track for each queue, in the process that softhca's events have, too.
///
/// @param offset_ns  added to all times
nlohmann::json PosterEvents(const ObservationFile& file, const ObservedQueue& queue, int64_t offset_ns);

/// Reads a file of `softhca --trace`, also one that its process has not completed.
///
/// @errors  std::runtime_error: it cannot be read, or is no such file
nlohmann::json ReadSofthcaTrace(const std::string& file);

}  // namespace warpverbs::programs
