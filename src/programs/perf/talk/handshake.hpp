#pragma once

#include "perf/options/options.hpp"
#include "perf/talk/talk.hpp"
#include "warpverbs/host/device.hpp"

/// What the sides must know of each other before they make anything.
namespace warpverbs::perf {

/// Tells a stranger and another version.
///
/// @errors  std::runtime_error
void ExchangeVersions(Talk& talk);

/// Compares what concerns both sides.
///
/// @return  how many connections of initiators there are: a side with one takes it for each of the other's
/// @errors  std::runtime_error: names the first option in which they differ, and both values
size_t ExchangeOptions(Talk& talk, const Options& options);

/// The larger of both sides' page sizes, and of their cache lines.
Grain ExchangeMachines(Talk& talk);

/// The path's MTU: the least of both ports' and of what is asked for.
///
/// @errors  std::runtime_error: more is asked for than either port has
uint32_t CheckMtu(Talk& talk, const Options& options, const host::Port& port);

}  // namespace warpverbs::perf
