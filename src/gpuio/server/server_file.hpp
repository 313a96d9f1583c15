#pragma once

#include <chrono>
#include <cstdint>

#include "gpuio/server/folder.hpp"
#include "gpuio/server/unique_fd.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file that a client has open. Transfers under way share it with the client.
class ServerFile {
 public:
  /// @param access  protocol::kOpenRead, kOpenWrite, or both
  /// @param direct  empty: the file's I/O is buffered
  ServerFile(UniqueFd fd, uint32_t access, DirectIo direct)
      : fd_(std::move(fd)),
        access_(access),
        direct_(std::move(direct.fd)),
        alignment_(direct_ ? direct.alignment : 1) {}

  int fd() const { return fd_.get(); }
  bool Allows(uint32_t access) const { return (access_ & access) == access; }

  /// Returns the file for a part whose ends are aligned; that of fd() where direct I/O does not work.
  int direct_fd() const { return alignment_ > 1 ? direct_.get() : fd_.get(); }

  /// Bytes that direct I/O wants its offsets to be a multiple of; 1: I/O is buffered.
  uint32_t alignment() const { return alignment_; }

  /// Makes I/O buffered from now on, because the file system refused the other. What is under way keeps the
  /// descriptor that it has.
  void UseBuffered() { alignment_ = 1; }

  /// Returns the file's size; an errno value, negative.
  int64_t Size() const;

  /// A part of the file that is a hole, or that is not.
  struct Extent {
    bool hole = false;
    uint64_t end = 0;
  };

  /// Returns the extent at an offset. The last one has no end.
  ///
  /// Asking the file system costs a walk through its extents, so an answer without holes is kept for a
  /// second, unless a client made a hole since. A stale one costs nothing but zeros that are sent.
  ///
  /// @param holes_made  counts the calls of clients that may make holes
  Extent ExtentAt(uint64_t offset, uint64_t holes_made);

 private:
  UniqueFd fd_;
  uint32_t access_;
  UniqueFd direct_;
  uint32_t alignment_;
  uint64_t data_begin_ = 0, data_end_ = 0, known_holes_made_ = 0;
  std::chrono::steady_clock::time_point known_at_{};
};

}  // namespace warpverbs::inline v0_2::gpuio
