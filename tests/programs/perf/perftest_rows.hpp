#pragma once

#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>

/// Counts the rows of a table in an output, by the pattern of a script that parses perftest's tables:
/// tests/conformance/run_pair.py.
inline size_t PerftestRows(const std::string& output) {
  std::ifstream stream(RUN_PAIR_SCRIPT);
  const std::string script{std::istreambuf_iterator<char>(stream), {}};
  const std::string before = "\nROW = r\"";
  const size_t at = script.find(before);
  if (at == std::string::npos) throw std::runtime_error(RUN_PAIR_SCRIPT " does not define ROW.");
  const size_t begin = at + before.size();
  const std::regex row(script.substr(begin, script.find('"', begin) - begin),
                       std::regex::ECMAScript | std::regex::multiline);
  return static_cast<size_t>(std::distance(std::sregex_iterator(output.begin(), output.end(), row), {}));
}
