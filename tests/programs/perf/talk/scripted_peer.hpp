#pragma once

#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "perf/talk/talk.hpp"

namespace warpverbs::perf {

/// A peer that answers as a test has it, whatever it is told.
class ScriptedPeer : public host::Exchange {
 public:
  /// @param answers  in turn; thereafter the last one, for ever
  explicit ScriptedPeer(std::vector<std::string> answers) : answers_(answers.begin(), answers.end()) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view, host::Deadline) override {
    told_.emplace_back(mine.begin(), mine.end());
    if (answers_.empty()) throw std::logic_error("the script is of no answer");
    const std::string answer = answers_.front();
    if (answers_.size() > 1) answers_.pop_front();
    return {answer.begin(), answer.end()};
  }

  /// All that it was told.
  const std::vector<std::string>& told() const { return told_; }

 private:
  std::deque<std::string> answers_;
  std::vector<std::string> told_;
};

}  // namespace warpverbs::perf
