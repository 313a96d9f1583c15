#include <linux/netlink.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cerrno>
#include <cstdarg>

#include "preload/process.hpp"
#include "preload/real.hpp"

// Hooks of the C library's functions that take file descriptors. Calls for foreign descriptors pass through
// without a lock, an allocation or a change of errno: they include other drivers' ioctls, and closes in
// signal handlers.

using namespace softhca::preload;  // NOLINT(google-build-using-namespace): hooks have the C library's names

extern "C" {
#pragma GCC visibility push(default)

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (request != RDMA_VERBS_IOCTL) return Real().ioctl(fd, request, argument);
  const int error = RunIoctl(fd, argument);
  if (error == kNotOurs) return Real().ioctl(fd, request, argument);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int close(int fd) { return softhca::uverbs::MayBeOurs(fd) ? CloseOurs(fd) : Real().close(fd); }

ssize_t write(int fd, const void* data, size_t bytes) {
  const int before = errno;
  const ssize_t written = Real().write(fd, data, bytes);
  // The connection manager's descriptor is the read end of a pipe: every write to it fails with EBADF.
  if (written >= 0 || errno != EBADF) return written;
  const int error = RunWrite(fd, data, bytes);
  errno = error == 0 ? before : error == kNotOurs ? EBADF : error;
  return error == 0 ? static_cast<ssize_t>(bytes) : -1;
}

int socket(int domain, int type, int protocol) noexcept {
  // A kernel with RDMA would list its own devices here. Refused, rdma-core reads the tree instead.
  if (domain == AF_NETLINK && protocol == NETLINK_RDMA && LaunchSettings() != nullptr) {
    errno = EPROTONOSUPPORT;
    return -1;
  }
  return Real().socket(domain, type, protocol);
}

#pragma GCC visibility pop
}
