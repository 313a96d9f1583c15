#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace softhca {

/// A rule of `--fault` in its words, which are taken one by one. What is left over in the end is refused,
/// with the words that would have been taken.
///
/// @errors  std::invalid_argument, of every call: a sentence that names the rule, the word and the remedy
class RuleText {
 public:
  explicit RuleText(const std::string& rule);

  const std::string& kind() const { return words_.front().name; }
  /// What follows the kind after a colon.
  std::optional<std::string> Value();

  bool Flag(const std::string& name);
  std::optional<std::string> Take(const std::string& name);
  std::optional<uint64_t> TakeNumber(const std::string& name, uint64_t most);
  std::optional<uint64_t> TakeTimeNs(const std::string& name);
  /// Refuses what was not taken.
  void End() const;

  uint64_t Number(const std::string& text, uint64_t most) const;
  /// "5%" or "0.1%", as a part of 1.
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
