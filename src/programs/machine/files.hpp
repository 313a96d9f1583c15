#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace warpverbs::programs {

/// The files by which the kernel tells about a machine: /sys, /proc, /dev. Reads only, and never throws.
class Files {
 public:
  /// @param root  a folder with a tree in place of the machine's own; empty: the machine
  explicit Files(std::string root = "") : root_(std::move(root)) {}

  /// The folder that is /sys.
  std::string sysfs() const { return root_ + "/sys"; }

  /// A file's text without the line's end; empty if it cannot be read.
  std::optional<std::string> Read(const std::string& path) const;

  /// As Read(), or "".
  std::string Text(const std::string& path) const { return Read(path).value_or(""); }

  /// A file's first bytes.
  ///
  /// @param most  how many at most
  std::vector<uint8_t> ReadBytes(const std::string& path, size_t most) const;

  /// The names in a folder, sorted; none if there is no such folder.
  std::vector<std::string> List(const std::string& folder) const;

  bool Exists(const std::string& path) const;

  /// The path with no symbolic link in it; "" if it leads nowhere.
  std::string Resolve(const std::string& path) const;

  /// Opens a file for reading and writing, and closes it.
  ///
  /// @return  0 or an errno value
  int TryOpen(const std::string& path) const;

 private:
  std::string root_;
};

}  // namespace warpverbs::programs
