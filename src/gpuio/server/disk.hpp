#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Asynchronous I/O of files, by io_uring or, where the kernel refuses that, by threads.
///
/// All calls and callbacks are on the loop's thread; no callback runs within the call. The destructor waits
/// for what the kernel has begun, and calls nothing.
class Disk {
 public:
  /// @param result  bytes, or -errno
  using Done = std::function<void(int64_t result)>;

  virtual ~Disk() = default;
  virtual void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) = 0;
  virtual void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) = 0;
  virtual void Sync(int fd, bool data_only, Done done) = 0;
  virtual void PunchHole(int fd, uint64_t offset, uint64_t bytes, Done done) = 0;

  /// Keeps a socket open beyond the death of this process until the kernel has finished all that is under
  /// way.
  ///
  /// A direct write that the kernel has begun goes on when its process is killed. A peer that sees the
  /// connection end sends its writes again elsewhere, and then others: the old one must not come after them.
  ///
  /// @return  for Release(); -1: it is not kept, because the kernel or a limit refuses
  virtual int Keep(int socket) = 0;

  /// Undoes Keep(). Without it the peer does not see the socket close.
  virtual void Release(int kept) = 0;

  /// Says in words what does the I/O.
  virtual std::string Describe() const = 0;
};

/// Makes a disk that uses io_uring.
///
/// @param buffers  memory of all reads and writes, which is registered with the ring where limits allow
/// @param sockets  most sockets that it keeps at a time
/// @errors  host::Error: the kernel has no io_uring, or refuses it to this process
std::unique_ptr<Disk> MakeUringDisk(asio::io_context& context, std::span<uint8_t> buffers, size_t sockets);

/// Makes a disk that uses threads of its own.
std::unique_ptr<Disk> MakeThreadDisk(asio::io_context& context);

}  // namespace warpverbs::inline v0_2::gpuio
