#pragma once

#include <utility>

namespace warpverbs::host {

/// Owns a file descriptor. 0 is one like any other; none is -1.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { Close(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      Close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  /// Another descriptor of the same file, which a new program does not inherit.
  ///
  /// @errors  Error: there are too many
  FileDescriptor Duplicate() const;

  void Close();

 private:
  int fd_ = -1;
};

}  // namespace warpverbs::host
