#include "golden.hpp"

#include <fstream>
#include <sstream>
#include <vector>

namespace golden {
namespace {

constexpr std::string_view kAny = "<*>";
constexpr char kAnyLines[] = "<...>";

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool LineMatches(std::string_view pattern, std::string_view line) {
  const size_t any = pattern.find(kAny);
  if (any == std::string_view::npos) return pattern == line;
  if (line.substr(0, any) != pattern.substr(0, any)) return false;
  pattern.remove_prefix(any + kAny.size());
  for (size_t skip = any; skip <= line.size(); ++skip)
    if (LineMatches(pattern, line.substr(skip))) return true;
  return false;
}

}  // namespace

testing::AssertionResult Matches(const std::string& pattern, const std::string& text) {
  const std::vector<std::string> expected = Lines(pattern), lines = Lines(text);
  size_t at = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == kAnyLines) {  // skips to the next expected line
      while (at < lines.size() && (i + 1 == expected.size() || !LineMatches(expected[i + 1], lines[at])))
        ++at;
      continue;
    }
    if (at < lines.size() && LineMatches(expected[i], lines[at])) {
      ++at;
      continue;
    }
    return testing::AssertionFailure()
           << "line " << at + 1 << "\n  is:        " << (at < lines.size() ? lines[at] : "(the end)")
           << "\n  should be: " << expected[i];
  }
  if (at == lines.size()) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "line " << at + 1 << "\n  is:        " << lines[at]
                                     << "\n  should be: (the end)";
}

testing::AssertionResult MatchesFile(const std::string& name, const std::string& text) {
  std::ifstream file(std::string(GOLDEN_FOLDER "/") + name);
  const std::string pattern{std::istreambuf_iterator<char>(file), {}};
  testing::AssertionResult result =
      file ? Matches(pattern, text) : testing::AssertionFailure() << "the file does not exist";
  if (result) return result;
  const std::string actual = testing::TempDir() + name;
  std::ofstream(actual) << text;
  return testing::AssertionFailure() << "golden/" << name << ": " << result.message()
                                     << "\nThe whole output is in " << actual;
}

}  // namespace golden
