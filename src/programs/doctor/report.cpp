#include "doctor/report.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/table.hpp"

namespace warpverbs::programs {
namespace {

constexpr int kJsonVersion = 1;
constexpr Verdict kVerdicts[] = {Verdict::kPass, Verdict::kWarn, Verdict::kFail, Verdict::kSkip};

size_t Count(std::span<const Result> results, Verdict verdict) {
  return static_cast<size_t>(std::count_if(results.begin(), results.end(), [verdict](const Result& result) {
    return result.outcome.verdict == verdict;
  }));
}

std::string Coloured(Verdict verdict, bool colour) {
  constexpr const char* kColours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};  // in Verdict's order
  const std::string word = ToString(verdict);
  return colour ? kColours[static_cast<size_t>(verdict)] + word + "\033[0m" : word;
}

}  // namespace

std::string ToText(std::span<const Result> results, bool colour) {
  size_t width = 0;
  for (const Result& result : results) width = std::max(width, result.id.size());
  std::string text;
  for (const auto& [id, outcome] : results) {
    const std::string space(width - id.size() + 2, ' ');
    text += Coloured(outcome.verdict, colour) + "  " + id + space + outcome.found + "\n";
    if (!outcome.remedy.empty()) text += std::string(width + 8, ' ') + "-> " + outcome.remedy + ".\n";
  }
  text += results.empty() ? "" : "\n";
  return text + std::to_string(Count(results, Verdict::kPass)) + " passed, " +
         std::to_string(Count(results, Verdict::kWarn)) + " to look at (WARN), " +
         std::to_string(Count(results, Verdict::kFail)) + " failed, " +
         std::to_string(Count(results, Verdict::kSkip)) + " skipped\n";
}

std::string ToJson(std::span<const Result> results) {
  nlohmann::ordered_json document = {{"version", kJsonVersion}, {"checks", nlohmann::ordered_json::array()}};
  for (const auto& [id, outcome] : results) {
    document["checks"].push_back({{"id", id},
                                  {"verdict", ToString(outcome.verdict)},
                                  {"found", outcome.found},
                                  {"remedy", outcome.remedy}});
  }
  for (const Verdict verdict : kVerdicts) document["counts"][ToString(verdict)] = Count(results, verdict);
  // A driver's text may be no UTF-8.
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int ExitCode(std::span<const Result> results) {
  if (Count(results, Verdict::kFail) > 0) return 3;
  return Count(results, Verdict::kWarn) > 0 ? 1 : 0;
}

std::string ListOf(std::span<const Check> checks) {
  Table table({"CHECK", "PASS MEANS THAT"}, 0);
  for (const Check& check : checks) table.Add({check.id, check.title});
  return table.Text();
}

}  // namespace warpverbs::programs
