#pragma once

#include <span>
#include <string>

#include "doctor/check.hpp"

namespace warpverbs::programs {

/// Aligned lines, each remedy below what it is for, and a line with counts.
///
/// @param colour  the verdicts in colours of a terminal
std::string ToText(std::span<const Result> results, bool colour);

/// The same for programs: {"version": 1, "checks": [{"id", "verdict", "found", "remedy"}], "counts": {...}}.
std::string ToJson(std::span<const Result> results);

/// 0: nothing to do; 1: the worst is a WARN; 3: a FAIL.
int ExitCode(std::span<const Result> results);

/// A line for each check.
std::string ListOf(std::span<const Check> checks);

}  // namespace warpverbs::programs
