#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace warpverbs::programs {

/// A table of text with aligned columns.
class Table {
 public:
  /// @param indent  spaces before each line
  explicit Table(std::vector<std::string> head, size_t indent = 2)
      : rows_{std::move(head)}, indent_(indent) {}

  /// @param row  one cell per column
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  bool empty() const { return rows_.size() == 1; }

  /// Returns the lines, without trailing spaces.
  std::string ToString() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const auto& row : rows_)
      for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (const auto& row : rows_) {
      std::string line(indent_, ' ');
      for (size_t i = 0; i < widths.size(); ++i)
        line += row[i] + std::string(widths[i] - row[i].size() + 2, ' ');
      line.resize(line.find_last_not_of(' ') + 1);
      text += line + '\n';
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
  size_t indent_;
};

}  // namespace warpverbs::programs
