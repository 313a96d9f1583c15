#pragma once

#include "perf/options/options.hpp"
#include "perf/steps.hpp"

namespace warpverbs::perf {

/// Measures what the command line asks for, as server or as client, and prints the report.
///
/// @return  the exit status
/// @errors  std::exception: a sentence; the other side has been told
int RunSession(Options options, const Steps& steps);

}  // namespace warpverbs::perf
