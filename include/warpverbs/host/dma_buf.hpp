#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "warpverbs/host/gpu.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// Owns a file descriptor. 0 is one like any other; none is -1.
class WARPVERBS_EXPORT FileDescriptor {
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

/// How a GPU's driver shall export memory.
struct DmaBufConfig {
  bool over_pcie = false;  ///< NICs reach it over PCIe: see Access::over_pcie
};

/// A range of a device's memory as a file, which the kernel knows how to reach. Closed with this; what was
/// registered by it stays.
class WARPVERBS_EXPORT DmaBuf {
 public:
  /// Exports the pages that a range of a GPU's memory lies in.
  ///
  /// @pre  the range is one allocation's
  /// @errors  Error
  DmaBuf(const Gpu& gpu, const void* memory, size_t bytes, const DmaBufConfig& config = {});

  /// Takes what somebody else has exported.
  ///
  /// @param file   none is refused; 0 is a file like any other
  /// @param start  the address of its first byte, as NICs shall be told it: a page's start
  /// @param bytes  of the file
  /// @errors  Error: there is no file, it is shorter, or the address is no page's
  DmaBuf(FileDescriptor file, uint64_t start, size_t bytes);

  int fd() const { return file_.get(); }
  const FileDescriptor& file() const { return file_; }
  uint64_t start() const { return start_; }
  size_t size() const { return size_; }

  /// Where an address lies in the file.
  uint64_t OffsetOf(const void* memory) const { return reinterpret_cast<uint64_t>(memory) - start_; }

  /// Whether the file has all of a range.
  bool Covers(const void* memory, size_t bytes) const {
    return OffsetOf(memory) <= size_ && bytes <= size_ - OffsetOf(memory);
  }

 private:
  uint64_t start_;
  size_t size_;
  FileDescriptor file_;
};

}  // namespace warpverbs::inline v0_2::host
