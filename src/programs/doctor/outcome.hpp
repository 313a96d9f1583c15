#pragma once

#include <string>
#include <vector>

namespace warpverbs::programs {

/// What a check says, the worst last.
enum class Verdict { kSkip, kPass, kWarn, kFail };

const char* ToString(Verdict verdict);  ///< "PASS"

struct Outcome {
  Verdict verdict = Verdict::kPass;
  std::string found{};
  std::string remedy{};  ///< "" where there is nothing to do
};

/// Gathers what one check finds at several places: the worst of it is the check's verdict.
class Findings {
 public:
  /// Something that does not apply here, with the reason.
  void Skip(const std::string& why) { Add(Verdict::kSkip, why, ""); }
  void Pass(const std::string& found) { Add(Verdict::kPass, found, ""); }
  void Warn(const std::string& found, const std::string& remedy) { Add(Verdict::kWarn, found, remedy); }
  void Fail(const std::string& found, const std::string& remedy) { Add(Verdict::kFail, found, remedy); }

  bool empty() const { return parts_.empty(); }

  /// All of it; the remedy is that of the first of the worst.
  Outcome Sum() const;

 private:
  void Add(Verdict verdict, const std::string& found, const std::string& remedy) {
    parts_.push_back({verdict, found, remedy});
  }

  std::vector<Outcome> parts_{};
};

inline Outcome Skip(std::string why) { return {Verdict::kSkip, std::move(why), ""}; }

/// "a, b and c"
std::string Join(const std::vector<std::string>& words);

}  // namespace warpverbs::programs
