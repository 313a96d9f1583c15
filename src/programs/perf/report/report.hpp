#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "perf/measure/statistics.hpp"
#include "perf/options/options.hpp"
#include "perf/talk/talk.hpp"

/// The table, in perftest's columns, and the JSON.
namespace warpverbs::perf {

/// What was measured of a size by an initiator.
struct Row {
  std::string initiator;
  std::variant<BandwidthFigures, LatencyFigures> figures;
};

/// What of the setting a report names.
struct Setting {
  std::string device{}, link_layer{};
  uint32_t mtu = 0;
  uint32_t gid_index = 0;
  bool software = false;                ///< a software HCA moves the data
  std::vector<std::string> paths{};     ///< of each initiator, in words
  std::optional<KernelFacts> kernel{};  ///< where a GPU posts

  static constexpr char kSoftwareNote[] =
      "a software HCA moves the data: these are figures of processors, not of a network";
};

/// The line that closes a part of the report.
std::string Rule();
/// What is measured and how, in perftest's words.
std::string Banner(const Options& options, const Setting& setting);
/// The heads of the columns; before them a line with a '#' that names who posts, where each initiator has a
/// table of its own: head and rows stay perftest's, for scripts that parse those.
std::string Head(const Options& options, const std::string& initiator);
/// A row, which is a line.
std::string Text(const Options& options, const Row& row);

/// "results" has the last row, as perftest's has; "rows" has all.
Json ToJson(const Options& options, const Setting& setting, const std::vector<Row>& rows);

/// Why a row misses a threshold of the command line; empty: it meets them.
std::string Missed(const Options& options, const Row& row);

}  // namespace warpverbs::perf
