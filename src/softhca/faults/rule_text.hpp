#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softhca {

/// Splits a rule of `--fault` into words, which callers take one by one. End() refuses the words that were
/// not taken, and lists those that the rule accepts.
///
/// @errors  std::invalid_argument, from every call: names the rule, the word and the remedy
class RuleText {
 public:
  explicit RuleText(const std::string& rule);

  const std::string& kind() const { return words_.front().name; }
  /// Returns the value after the kind and a colon.
  std::optional<std::string> Value();

  bool Flag(const std::string& name);
  std::optional<std::string> Take(const std::string& name);
  std::optional<uint64_t> TakeNumber(const std::string& name, uint64_t most);
  std::optional<uint64_t> TakeTimeNs(const std::string& name);
  /// Refuses words that were not taken.
  void End() const;

  uint64_t Number(const std::string& text, uint64_t most) const;
  /// Parses "5%" or "0.1%" as a fraction of 1.
  double Percentage(const std::string& text) const;
  [[noreturn]] void Refuse(const std::string& why) const;

 private:
  struct Word {
    std::string name;
    std::optional<std::string> value;
    bool taken = false;
  };

  Word* Find(const std::string& name);
  uint64_t TimeNs(const std::string& text) const;

  std::string rule_;
  std::vector<Word> words_;  ///< the kind first
  std::vector<std::string> known_;
};

}  // namespace softhca
