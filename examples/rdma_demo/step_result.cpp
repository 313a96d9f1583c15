#include "outcome.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <ostream>
#include <stdexcept>

namespace rdma_demo {
namespace {

constexpr std::array<const char*, 3> kWords{"ok", "unsupported", "failed"};

const char* WordFor(Result result) { return kWords.at(static_cast<size_t>(result)); }

}  // namespace

std::string Outcome::ToText() const { return std::string(WordFor(result)) + ' ' + text; }

Outcome Outcome::FromText(const std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  const auto* const word = std::find(kWords.begin(), kWords.end(), line.substr(0, space));
  if (word == kWords.end()) {
    throw std::runtime_error("Cannot understand the peer: it says '" + line +
                             "', which is no outcome. Run programs of the same version on both sides.");
  }
  return {static_cast<Result>(word - kWords.begin()), line.substr(std::min(space + 1, line.size()))};
}

Outcome Agree(const Outcome& own, const Outcome& theirs, const std::string& peer) {
  if (own.result >= theirs.result) return own;
  return {theirs.result, peer + " says: " + theirs.text};
}

std::string Fact(const std::string& name, const std::string& value) {
  constexpr size_t kColumn = 18;
  return "  " + name + std::string(kColumn - std::min(kColumn - 1, name.size()), ' ') + value;
}

bool Summary::all_well() const {
  return outcomes.size() == planned.size() &&
         std::all_of(outcomes.begin(), outcomes.end(),
                     [](const Outcome& outcome) { return outcome.result != Result::kFailed; });
}

void Summary::Print(std::ostream& out) const {
  out << "Summary of " << side << ":\n";
  for (const std::string& fact : facts) out << fact << '\n';
  for (size_t i = 0; i < planned.size(); ++i) {
    const bool done = i < outcomes.size();
    out << Fact(planned[i],
                done ? std::string(WordFor(outcomes[i].result)) + ": " + outcomes[i].text : "not done")
        << '\n';
  }
  out << (all_well() ? "All is well.\n" : "Not all is well.\n");
}

}  // namespace rdma_demo
