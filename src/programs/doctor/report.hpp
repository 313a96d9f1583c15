#pragma once

#include <span>
#include <string>

#include "doctor/check.hpp"

namespace warpverbs::programs {

/// Returns a line per check, each with its remedy below, and a line with counts.
///
/// @param colour  whether to colour the verdicts for a terminal
std::string ToText(std::span<const CheckResult> results, bool colour);

/// Returns JSON: {"version": 1, "checks": [{"id", "verdict", "found", "remedy"}], "counts": {...}}.
std::string ToJson(std::span<const CheckResult> results);

/// Returns 0 if all checks pass or are skipped, 1 if the worst verdict is WARN, 3 if it is FAIL.
int ExitCode(std::span<const CheckResult> results);

/// Returns a line per check.
std::string ListChecks(std::span<const Check> checks);

}  // namespace warpverbs::programs
