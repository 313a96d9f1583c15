#include "doctor/report.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/table.hpp"

namespace warpverbs::programs {
namespace {

constexpr int kJsonVersion = 1;
constexpr Verdict kVerdicts[] = {Verdict::kPass, Verdict::kWarn, Verdict::kFail, Verdict::kSkip};

size_t Count(std::span<const CheckResult> results, Verdict verdict) {
  return static_cast<size_t>(
      std::count_if(results.begin(), results.end(),
                    [verdict](const CheckResult& result) { return result.finding.verdict == verdict; }));
}

std::string Colour(Verdict verdict, bool enabled) {
  constexpr const char* kColours[] = {"\033[2m", "\033[32m", "\033[33m", "\033[31m"};  // in Verdict's order
  const std::string word = ToString(verdict);
  return enabled ? kColours[static_cast<size_t>(verdict)] + word + "\033[0m" : word;
}

}  // namespace

std::string ToText(std::span<const CheckResult> results, bool colour) {
  size_t width = 0;
  for (const CheckResult& result : results) width = std::max(width, result.id.size());
  std::string text;
  for (const auto& [id, finding] : results) {
    const std::string space(width - id.size() + 2, ' ');
    text += Colour(finding.verdict, colour) + "  " + id + space + finding.found + "\n";
    if (!finding.remedy.empty()) text += std::string(width + 8, ' ') + "-> " + finding.remedy + ".\n";
  }
  text += results.empty() ? "" : "\n";
  return text + std::to_string(Count(results, Verdict::kPass)) + " passed, " +
         std::to_string(Count(results, Verdict::kWarn)) + " warned, " +
         std::to_string(Count(results, Verdict::kFail)) + " failed, " +
         std::to_string(Count(results, Verdict::kSkip)) + " skipped\n";
}

std::string ToJson(std::span<const CheckResult> results) {
  nlohmann::ordered_json document = {{"version", kJsonVersion}, {"checks", nlohmann::ordered_json::array()}};
  for (const auto& [id, finding] : results) {
    document["checks"].push_back({{"id", id},
                                  {"verdict", ToString(finding.verdict)},
                                  {"found", finding.found},
                                  {"remedy", finding.remedy}});
  }
  for (const Verdict verdict : kVerdicts) document["counts"][ToString(verdict)] = Count(results, verdict);
  // Texts of drivers may be invalid UTF-8.
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int ExitCode(std::span<const CheckResult> results) {
  if (Count(results, Verdict::kFail) > 0) return 3;
  return Count(results, Verdict::kWarn) > 0 ? 1 : 0;
}

std::string ListChecks(std::span<const Check> checks) {
  Table table({"CHECK", "PASS MEANS THAT"}, 0);
  for (const Check& check : checks) table.Add({check.id, check.title});
  return table.ToString();
}

}  // namespace warpverbs::programs
