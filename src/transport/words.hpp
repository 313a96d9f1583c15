#pragma once

#include <chrono>
#include <string>

namespace warpverbs::transport {

/// "5 ms": a time, in the largest unit that it is whole in.
std::string InWords(std::chrono::nanoseconds time);

}  // namespace warpverbs::transport
