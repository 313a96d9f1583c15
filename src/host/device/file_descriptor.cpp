#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

FileDescriptor FileDescriptor::Duplicate() const {
  FileDescriptor duplicate(fcntl(fd_, F_DUPFD_CLOEXEC, 0));
  if (!duplicate) {
    throw Error::FromErrno("duplicate", "file descriptor " + std::to_string(fd_), errno,
                           "Raise the limit on open files (ulimit -n)");
  }
  return duplicate;
}

void FileDescriptor::Close() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace warpverbs::inline v0_2::host
