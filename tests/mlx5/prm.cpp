#include "prm.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>

namespace prm {
namespace {

const std::filesystem::path kSource = WARPVERBS_SOURCE_DIR;
const std::filesystem::path kHeaders = kSource / "include/warpverbs/mlx5";

std::vector<std::vector<std::string>> ReadCsv(const std::string& name) {
  std::ifstream file(kSource / "tests/data/prm" / name);
  EXPECT_TRUE(file) << name << " cannot be read";
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);  // the columns' names
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

}  // namespace

const std::map<std::string, Place>& Fields() {
  static const auto fields = [] {
    std::map<std::string, Place> table;
    for (const auto& row : ReadCsv("fields.csv")) {
      const Place place{static_cast<uint32_t>(std::stoul(row.at(2))),
                        static_cast<uint32_t>(std::stoul(row.at(3)))};
      EXPECT_TRUE(table.emplace(row.at(0) + "." + row.at(1), place).second)
          << "twice in fields.csv: " << row[1];
    }
    return table;
  }();
  return fields;
}

Place FieldAt(const std::string& name) {
  const auto found = Fields().find(name);
  if (found != Fields().end()) return found->second;
  ADD_FAILURE() << name << " is not in tests/data/prm/fields.csv";
  return {};
}

const std::map<std::string, std::map<std::string, uint64_t>>& Values() {
  static const auto values = [] {
    std::map<std::string, std::map<std::string, uint64_t>> table;
    for (const auto& row : ReadCsv("values.csv"))
      table[row.at(0)][row.at(1)] = std::stoull(row.at(2), nullptr, 0);
    return table;
  }();
  return values;
}

std::string Header(const std::string& name) {
  std::ifstream file(kHeaders / name);
  EXPECT_TRUE(file) << name << " cannot be read";
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return std::regex_replace(text, std::regex("//[^\n]*"), "");
}

size_t Count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

std::vector<std::string> Headers() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kHeaders))
    names.push_back(entry.path().filename());
  return names;
}

}  // namespace prm
