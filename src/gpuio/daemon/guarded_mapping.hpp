#pragma once

#include <cstddef>
#include <memory>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file of an application, mapped. The application may truncate it at any time.
///
/// An access behind the new end finds zeroed memory of this process instead of ending it by SIGBUS.
class GuardedMapping {
 public:
  /// Largest number of mappings of this process.
  static constexpr size_t kMaxCount = 32768;

  /// @param error  0 or an errno value: ENOMEM: there are kMaxCount
  static std::unique_ptr<GuardedMapping> Map(host::FileDescriptor file, size_t bytes, int& error);
  ~GuardedMapping();
  GuardedMapping(const GuardedMapping&) = delete;
  GuardedMapping& operator=(const GuardedMapping&) = delete;

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  const host::FileDescriptor& file() const { return file_; }

  /// Says whether an access was behind the end of the file.
  bool WasTruncated() const;

 private:
  GuardedMapping(host::FileDescriptor file, std::byte* data, size_t size, size_t guard)
      : file_(std::move(file)), data_(data), size_(size), guard_(guard) {}

  host::FileDescriptor file_;
  std::byte* data_;
  size_t size_;
  size_t guard_;  // index
};

}  // namespace warpverbs::inline v0_2::gpuio
