#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace warpverbs::programs {

/// Reads the files in which the kernel describes a machine: /sys, /proc, /dev. Never writes or throws.
class Files {
 public:
  /// @param root  a folder that replaces the root of the file system; empty: the machine's own
  explicit Files(std::string root = "") : root_(std::move(root)) {}

  /// Returns the path of /sys.
  std::string sysfs() const { return root_ + "/sys"; }

  /// Returns a file's text without trailing newlines; empty if it cannot be read.
  std::optional<std::string> Read(const std::string& path) const;

  /// Returns what Read() does, or "".
  std::string ReadOrEmpty(const std::string& path) const { return Read(path).value_or(""); }

  /// Returns at most the first `max` bytes of a file.
  std::vector<uint8_t> ReadBytes(const std::string& path, size_t max) const;

  /// Returns the names in a folder, sorted; none if the folder does not exist.
  std::vector<std::string> List(const std::string& folder) const;

  bool Exists(const std::string& path) const;

  /// Returns the path without symbolic links; "" if it does not exist.
  std::string Resolve(const std::string& path) const;

  /// Opens a file for reading and writing, and closes it.
  ///
  /// @return  0 or an errno value
  int TryOpen(const std::string& path) const;

 private:
  std::string root_;
};

}  // namespace warpverbs::programs
