#pragma once

#include <deque>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "perf/control/control_channel.hpp"

namespace warpverbs::perf {

/// A peer that sends scripted answers, regardless of the messages that it receives.
class ScriptedPeer : public host::Exchange {
 public:
  /// @param answers  sent in turn; the last one is repeated forever
  explicit ScriptedPeer(std::vector<std::string> answers) : answers_(answers.begin(), answers.end()) {}

  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view, host::Deadline) override {
    received_.emplace_back(mine.begin(), mine.end());
    if (answers_.empty()) throw std::logic_error("the script has no answer");
    const std::string answer = answers_.front();
    if (answers_.size() > 1) answers_.pop_front();
    return {answer.begin(), answer.end()};
  }

  /// Returns all messages that it received.
  const std::vector<std::string>& received() const { return received_; }

 private:
  std::deque<std::string> answers_;
  std::vector<std::string> received_;
};

}  // namespace warpverbs::perf
