// Buffers, rings and files of the C API, which release themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "warpverbs/gpuio/hf3fs_usrbio.h"

/// Returns the ordinal of "cuda:N"; empty: "cpu".
std::optional<int> GpuOf(const std::string& device);

/// Returns an error for an option's value that GpuOf() does not take; "": it does.
std::string CheckDevice(const std::string& device);

/// A buffer that files are read into and written from.
class Iov {
 public:
  /// @param gpu  ordinal; empty: memory of the host
  /// @errors  host::Error: no memory, no GPU, or the daemon cannot register it
  Iov(const std::filesystem::path& mount, size_t bytes, std::optional<int> gpu);
  ~Iov();
  Iov(const Iov&) = delete;
  Iov& operator=(const Iov&) = delete;

  const hf3fs_iov& get() const { return iov_; }
  std::string name() const;  ///< "memory of cuda:0"

  /// Makes visible to NICs what kernels wrote, or to kernels what NICs wrote.
  void SyncBeforeIo() const;
  void SyncAfterIo() const;

 private:
  hf3fs_iov iov_{};
};

/// An open file that rings know.
class RegisteredFile {
 public:
  /// @param flags  of open(2)
  /// @errors  host::Error: it cannot be opened, or is on no mount
  RegisteredFile(const std::filesystem::path& path, int flags);
  ~RegisteredFile();
  RegisteredFile(const RegisteredFile&) = delete;
  RegisteredFile& operator=(const RegisteredFile&) = delete;

  int fd() const { return fd_; }

 private:
  int fd_;
};

/// An I/O of a ring: part of a buffer, and of a file.
struct RingIo {
  size_t at = 0;  ///< offset in the buffer
  size_t offset = 0;
  size_t bytes = 0;
  uint64_t tag = 0;  ///< comes back
};

/// A ring that starts everything at once. One thread uses it.
class Ring {
 public:
  /// @errors  host::Error
  Ring(const std::filesystem::path& mount, bool reads, int entries);
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  /// @pre     fewer I/Os than the ring has entries are under way
  /// @errors  host::Error
  void Prepare(const Iov& iov, const RegisteredFile& file, const RingIo& io);
  void Submit();

  /// Waits until at least one I/O is done.
  ///
  /// @return  number of completions
  /// @errors  host::Error: an I/O failed, or nothing came within a minute; std::runtime_error: a signal has
  ///          come
  size_t Wait(std::span<hf3fs_cqe> cqes);

  /// Moves bytes in pieces of up to `piece` bytes, as many at a time as the ring has entries.
  ///
  /// @errors  as Wait(); also if the file is too short
  void Transfer(const Iov& iov, const RegisteredFile& file, const RingIo& io, size_t piece);

 private:
  hf3fs_ior ior_{};
  bool reads_;
};
