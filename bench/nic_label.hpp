#pragma once

#include <string>

#include "warpverbs/host/device.hpp"

namespace warpverbs::bench {

/// Says what executes the work, for the benchmarks' output: figures of softhca are none of a network.
std::string NicLabel(const host::Device& device);

/// The NIC that the only argument of a benchmark names, once Google Benchmark has taken its own; without one,
/// the first with an active port.
///
/// @errors  std::invalid_argument: there is an option, or more than one argument
std::string NicOf(int argc, char** argv);

}  // namespace warpverbs::bench
