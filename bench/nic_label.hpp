#pragma once

#include <string>

#include "warpverbs/host/device.hpp"

namespace warpverbs::bench {

/// Names the executor of the work for the benchmarks' output: figures of softhca are not network figures.
std::string NicLabel(const host::Device& device);

/// Opens the NIC that a benchmark's only argument names, after Google Benchmark has taken its own arguments.
///
/// Without an argument, opens the first NIC with an active port.
///
/// @errors  std::invalid_argument: an option, or more than one argument
std::string NicOf(int argc, char** argv);

}  // namespace warpverbs::bench
