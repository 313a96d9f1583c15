#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file of /dev/shm, mapped.
class ShmFile {
 public:
  /// Creates a file that has its memory already, so that no access fails later. It goes with this process:
  /// see OwnFile().
  ///
  /// @param name   of a file of /dev/shm
  /// @param numa   NUMA node, or -1
  /// @param error  0 or an errno value
  static std::unique_ptr<ShmFile> Create(const std::string& name, size_t bytes, int numa, int& error);

  /// Opens a file that has `bytes` or more. Follows no link.
  ///
  /// @param error  0 or an errno value; EINVAL: it is shorter
  static std::unique_ptr<ShmFile> Open(const std::string& name, size_t bytes, int& error);

  /// Removes the file if this process created it, and unmaps it.
  ~ShmFile();
  ShmFile(const ShmFile&) = delete;
  ShmFile& operator=(const ShmFile&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::string path() const { return "/dev/shm/" + name_; }

 private:
  ShmFile(std::string name, std::byte* data, size_t size, int creator)
      : name_(std::move(name)), data_(data), size_(size), creator_(creator) {}

  std::string name_;
  std::byte* data_;
  size_t size_;
  int creator_;  // process id; 0: opened
};

}  // namespace warpverbs::inline v0_2::gpuio
