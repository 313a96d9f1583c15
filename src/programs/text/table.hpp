#pragma once

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
  std::string ToString() const;

 private:
  std::vector<std::vector<std::string>> rows_;
  size_t indent_;
};

}  // namespace warpverbs::programs
