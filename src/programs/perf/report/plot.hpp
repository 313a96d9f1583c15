#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "perf/control/control_channel.hpp"

namespace warpverbs::perf {

/// A JSON report, and the file that it came from.
struct PlotInput {
  std::string file;
  Json report;
};

/// Returns gnuplot commands for a picture: bandwidth over size, latency over size, or both in two panels.
///
/// @param picture  ends in .svg or .png
/// @errors  std::runtime_error: a file is not a report
std::string PlotScript(const std::string& picture, const std::vector<PlotInput>& reports);

/// Draws reports by gnuplot.
///
/// @param timeout  when it has passed, gnuplot is killed
/// @errors  std::runtime_error: a file cannot be read or is not a report; gnuplot is missing, fails, or does
///          not end in time
void Plot(const std::string& picture, const std::vector<std::string>& files,
          std::chrono::seconds timeout = std::chrono::seconds(30));

}  // namespace warpverbs::perf
