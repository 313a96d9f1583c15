#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gpuio/server/folder.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file that a client has open. Transfers under way share it with the client.
class ServerFile {
 public:
  /// @param access  protocol::kOpenRead, kOpenWrite, or both
  /// @param direct  empty: the file's I/O is buffered
  ServerFile(host::FileDescriptor fd, uint32_t access, DirectIo direct)
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

  /// A part of the file that is a hole, or that is not. It begins where the one before ends.
  struct Extent {
    bool hole = false;
    uint64_t end = 0;
  };

  /// The answer of the file system about a part of the file.
  struct Map {
    int error = 0;                          ///< an errno value; 0: the rest is valid
    uint64_t bytes = 0;                     ///< size of the file
    std::vector<Extent> extents{};          ///< extents from the part's begin; what is behind them is data
    uint64_t data_begin = 0, data_end = 0;  ///< a range without holes
  };

  /// Asks the file system for the file's size, and for the extents of a part of it.
  ///
  /// Blocks, and may be called in any thread.
  ///
  /// @param max_holes  number of holes at which it stops
  Map MapPart(uint64_t begin, uint64_t end, size_t max_holes) const;

  /// Remembers the range without holes of a map for a second.
  ///
  /// @param holes_made  count when the map was asked for
  void Remember(const Map& map, uint64_t holes_made);

  /// Says whether a part had no hole within the last second, and no client made one since.
  ///
  /// It may have got a hole by a program on the server's machine or by another server, and then reads as
  /// zeros.
  ///
  /// @param holes_made  counts the calls of clients that may make holes
  bool IsKnownData(uint64_t begin, uint64_t end, uint64_t holes_made) const;

 private:
  host::FileDescriptor fd_;
  uint32_t access_;
  host::FileDescriptor direct_;
  uint32_t alignment_;
  uint64_t data_begin_ = 0, data_end_ = 0, known_holes_made_ = 0;
  std::chrono::steady_clock::time_point known_at_{};
};

}  // namespace warpverbs::inline v0_2::gpuio
