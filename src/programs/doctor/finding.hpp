#pragma once

#include <string>
#include <vector>

namespace warpverbs::programs {

/// The verdict of a check, from best to worst.
enum class Verdict { kSkip, kPass, kWarn, kFail };

/// Returns "PASS", "WARN", "FAIL" or "SKIP".
const char* ToString(Verdict verdict);

/// The verdict of a check with its reason.
struct Finding {
  Verdict verdict = Verdict::kPass;
  std::string found{};
  std::string remedy{};  ///< "" if nothing needs to be done
};

/// Collects what one check finds in several places. The worst verdict is the check's.
class Findings {
 public:
  void Skip(const std::string& why) { Add(Verdict::kSkip, why, ""); }
  void Pass(const std::string& found) { Add(Verdict::kPass, found, ""); }
  void Warn(const std::string& found, const std::string& remedy) { Add(Verdict::kWarn, found, remedy); }
  void Fail(const std::string& found, const std::string& remedy) { Add(Verdict::kFail, found, remedy); }

  bool empty() const { return parts_.empty(); }

  /// Returns one finding: all texts, the worst verdict, and the remedy of the first finding with it.
  Finding Combine() const;

 private:
  void Add(Verdict verdict, const std::string& found, const std::string& remedy) {
    parts_.push_back({verdict, found, remedy});
  }

  std::vector<Finding> parts_{};
};

inline Finding Skip(std::string why) { return {Verdict::kSkip, std::move(why), ""}; }

/// Returns "a, b and c".
std::string Join(const std::vector<std::string>& words);

}  // namespace warpverbs::programs
