#pragma once

#include <fstream>
#include <iterator>
#include <regex>
#include <stdexcept>
#include <string>

/// How many rows of perftest's table an output has, by the pattern of a script that parses perftest's own:
/// tests/conformance/run_pair.py.
inline size_t PerftestRows(const std::string& output) {
  std::ifstream stream(RUN_PAIR_SCRIPT);
  const std::string script{std::istreambuf_iterator<char>(stream), {}};
  const std::string before = "\nROW = r\"";
  const size_t at = script.find(before);
  if (at == std::string::npos) throw std::runtime_error("There is no ROW in " RUN_PAIR_SCRIPT ".");
  const size_t begin = at + before.size();
  const std::regex row(script.substr(begin, script.find('"', begin) - begin),
                       std::regex::ECMAScript | std::regex::multiline);
  return static_cast<size_t>(std::distance(std::sregex_iterator(output.begin(), output.end(), row), {}));
}
