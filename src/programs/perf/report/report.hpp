#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "perf/control/control_channel.hpp"
#include "perf/measure/statistics.hpp"
#include "perf/options/options.hpp"

/// The table in perftest's columns, and the JSON report.
namespace warpverbs::perf {

/// The figures of one message size and one initiator.
struct Row {
  std::string initiator;
  std::variant<BandwidthFigures, LatencyFigures> figures;
};

/// The context of a measurement, for the report.
struct ReportContext {
  std::string device{}, link_layer{};
  uint32_t mtu = 0;
  uint32_t gid_index = 0;
  bool software = false;                ///< whether a software HCA moves the data
  std::vector<std::string> paths{};     ///< Describe() of each side
  std::optional<KernelFacts> kernel{};  ///< the kernel that posts, if one does

  static constexpr char kSoftwareNote[] =
      "a software HCA moves the data: the figures measure processors, not a network";
};

/// Returns the line between parts of the report.
std::string Separator();
/// Returns the head of the report: what is measured and how, in perftest's words.
std::string Banner(const Options& options, const ReportContext& context);
/// Returns the column heads. If each initiator has a table of its own, a line with '#' before them names the
/// initiator. Heads and rows equal perftest's, for scripts that parse them.
std::string ColumnHeads(const Options& options, const std::string& initiator);
/// Returns a row of the table, with its newline.
std::string ToText(const Options& options, const Row& row);

/// Returns the JSON report: "results" has the last row, as in perftest; "rows" has all rows.
Json ToJson(const Options& options, const ReportContext& context, const std::vector<Row>& rows);

/// Returns why a row fails a threshold of the command line; empty if it meets all.
std::string FailedThreshold(const Options& options, const Row& row);

}  // namespace warpverbs::perf
