#include "faults/rule_text.hpp"

#include <charconv>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace softhca {
namespace {

std::pair<std::string, std::optional<std::string>> Split(const std::string& text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string::npos) return {text, std::nullopt};
  return {text.substr(0, at), text.substr(at + 1)};
}

/// Parses all of `text` as a number.
template <class T, class... Format>
std::optional<T> Read(std::string_view text, Format... format) {
  T value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value, format...);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

RuleText::RuleText(const std::string& rule) : rule_(rule) {
  for (std::optional<std::string> rest = rule; rest;) {
    auto [word, more] = Split(*rest, ',');
    auto [name, value] = Split(word, words_.empty() ? ':' : '=');
    if (name.empty())
      Refuse(words_.empty() ? "a rule starts with its kind, such as drop:5%" : "a word is empty");
    words_.push_back({std::move(name), std::move(value)});
    rest = std::move(more);
  }
}

std::optional<std::string> RuleText::Value() {
  words_.front().taken = true;
  return words_.front().value;
}

RuleText::Word* RuleText::Find(const std::string& name) {
  known_.push_back(name);
  Word* found = nullptr;
  for (size_t i = 1; i < words_.size(); ++i) {
    if (words_[i].name != name) continue;
    if (found != nullptr) Refuse("'" + name + "' is given twice");
    found = &words_[i];
    found->taken = true;
  }
  return found;
}

bool RuleText::Flag(const std::string& name) {
  const Word* const word = Find(name);
  if (word != nullptr && word->value) Refuse("'" + name + "' takes no value");
  return word != nullptr;
}

std::optional<std::string> RuleText::Take(const std::string& name) {
  const Word* const word = Find(name);
  if (word == nullptr) return std::nullopt;
  if (!word->value || word->value->empty()) Refuse("'" + name + "' needs a value: " + name + "=...");
  return word->value;
}

std::optional<uint64_t> RuleText::TakeNumber(const std::string& name, uint64_t most) {
  const auto text = Take(name);
  if (!text) return std::nullopt;
  return Number(*text, most);
}

std::optional<uint64_t> RuleText::TakeTimeNs(const std::string& name) {
  const auto text = Take(name);
  if (!text) return std::nullopt;
  return TimeNs(*text);
}

void RuleText::End() const {
  for (const Word& word : words_) {
    if (word.taken) continue;
    if (&word == &words_.front()) {
      if (word.value) Refuse("'" + word.name + "' takes no value");
      continue;
    }
    std::string names;
    for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
    Refuse("'" + kind() + "' does not take '" + word.name + "'" + (names.empty() ? "" : ", only " + names));
  }
}

uint64_t RuleText::Number(const std::string& text, uint64_t most) const {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  const auto value =
      Read<uint64_t>(std::string_view(text).substr(hexadecimal ? 2 : 0), hexadecimal ? 16 : 10);
  if (!value || *value > most) Refuse("'" + text + "' is not a number from 0 to " + std::to_string(most));
  return *value;
}

double RuleText::Percentage(const std::string& text) const {
  const bool percent = text.ends_with('%');
  const auto value = Read<double>(std::string_view(text).substr(0, text.size() - (percent ? 1 : 0)));
  if (!percent || !value || !(*value >= 0 && *value <= 100)) {
    Refuse("'" + text + "' is not a percentage; write 5% or 0.1%");
  }
  return *value / 100;
}

uint64_t RuleText::TimeNs(const std::string& text) const {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  constexpr uint64_t kMaxSeconds = 1'000'000;
  for (const auto& [unit, ns] : kUnits) {
    if (!text.ends_with(unit)) continue;
    const auto value = Read<uint64_t>(std::string_view(text).substr(0, text.size() - unit.size()));
    if (value && *value <= kMaxSeconds * (1'000'000'000 / ns)) return *value * ns;
  }
  Refuse("'" + text + "' is not a time; write 50us, 20ms or 2s");
}

void RuleText::Refuse(const std::string& why) const {
  throw std::invalid_argument("--fault " + rule_ + ": " + why);
}

}  // namespace softhca
