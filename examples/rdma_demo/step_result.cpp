#include "step_result.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <stdexcept>

namespace rdma_demo {
namespace {

constexpr std::array<const char*, 3> kNames{"ok", "unsupported", "failed"};

const char* ToString(StepCode code) { return kNames.at(static_cast<size_t>(code)); }

}  // namespace

std::string StepResult::ToText() const { return std::string(ToString(code)) + ' ' + text; }

StepResult StepResult::FromText(const std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const auto* const name = std::find(kNames.begin(), kNames.end(), line.substr(0, space));
  if (name == kNames.end()) {
    throw std::runtime_error("Cannot understand the peer: it says '" + line +
                             "', which is not a result. Run programs of the same version on both sides.");
  }
  return {static_cast<StepCode>(name - kNames.begin()), line.substr(std::min(space + 1, line.size()))};
}

StepResult Combine(const StepResult& own, const StepResult& theirs, const std::string& peer) {
  if (own.code >= theirs.code) return own;
  return {theirs.code, peer + " says: " + theirs.text};
}

std::string TableRow(const std::string& name, const std::string& value) {
  constexpr size_t kColumn = 18;
  return "  " + name + std::string(kColumn - std::min(kColumn - 1, name.size()), ' ') + value;
}

bool Summary::succeeded() const {
  return results.size() == steps.size() &&
         std::all_of(results.begin(), results.end(),
                     [](const StepResult& result) { return result.code != StepCode::kFailed; });
}

void Summary::Print(std::ostream& out) const {
  out << "Summary of " << side << ":\n";
  for (const std::string& row : rows) out << row << '\n';
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool done = i < results.size();
    out << TableRow(steps[i],
                    done ? std::string(ToString(results[i].code)) + ": " + results[i].text : "not done")
        << '\n';
  }
  out << (succeeded() ? "All is well.\n" : "Not all is well.\n");
}

}  // namespace rdma_demo
