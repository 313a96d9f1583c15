#include "doctor/finding.hpp"

namespace warpverbs::programs {

const char* ToString(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSkip:
      return "SKIP";
    case Verdict::kPass:
      return "PASS";
    case Verdict::kWarn:
      return "WARN";
    case Verdict::kFail:
      return "FAIL";
  }
  return "unknown";
}

Finding Findings::Combine() const {
  Finding sum{.verdict = Verdict::kSkip, .found = "", .remedy = ""};
  for (const Finding& part : parts_) {
    sum.found += (sum.found.empty() ? "" : "; ") + part.found;
    if (part.verdict > sum.verdict) {
      sum.verdict = part.verdict;
      sum.remedy = part.remedy;
    }
  }
  return sum;
}

std::string Join(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return text;
}

}  // namespace warpverbs::programs
