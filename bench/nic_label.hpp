#pragma once

#include <string>

#include "warpverbs/host/device.hpp"

namespace warpverbs::bench {

/// Says what executes the work, for the benchmarks' output: figures of softhca are none of a network.
std::string NicLabel(const host::Device& device);

}  // namespace warpverbs::bench
