#pragma once

#include <string>
#include <vector>

#include "perf/talk/talk.hpp"

namespace warpverbs::perf {

/// What --out_json_file has written, and from which file that came.
struct Plotted {
  std::string file;
  Json report;
};

/// The commands of gnuplot for a picture: bandwidths over size, latencies over size, or one above the other.
///
/// @param picture  ends in .svg or .png
/// @errors  std::runtime_error: a file is no report
std::string PlotScript(const std::string& picture, const std::vector<Plotted>& reports);

/// Draws reports by gnuplot.
///
/// @errors  std::runtime_error: a file cannot be read or is no report; there is no gnuplot, or it fails
void Plot(const std::string& picture, const std::vector<std::string>& files);

}  // namespace warpverbs::perf
