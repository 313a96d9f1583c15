#pragma once

#include <sys/mount.h>

#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <string>

namespace warpverbs::inline v0_2::gpuio {

/// A file system of a few bytes on a folder, as long as it lives.
class SmallFileSystem {
 public:
  SmallFileSystem(const std::filesystem::path& folder, size_t bytes) : folder_(folder) {
    std::filesystem::create_directory(folder_);
    const std::string size = "size=" + std::to_string(bytes);
    error_ = ::mount("none", folder_.c_str(), "tmpfs", 0, size.c_str()) == 0 ? 0 : errno;
  }
  ~SmallFileSystem() {
    if (error_ == 0) umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;

  /// Returns why it could not be mounted, as errno; 0: it was.
  int error() const { return error_; }

 private:
  std::filesystem::path folder_;
  int error_ = 0;
};

}  // namespace warpverbs::inline v0_2::gpuio
