#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/hca.hpp"
#include "observe/stats.hpp"

namespace softhca {

struct StatsReport {
  std::span<const std::unique_ptr<Hca>> devices;
  std::vector<QpCounters> qps{};
  std::map<std::string, uint64_t> drops;  ///< dropped frames, by reason
};

/// Prints tables to standard error.
void Print(const StatsReport& report);

/// Writes JSON to a file. Reports on standard error if the file cannot be written.
void WriteJson(const StatsReport& report, const std::string& file);

}  // namespace softhca
