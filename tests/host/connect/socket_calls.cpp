#include "host/connect/socket_calls.hpp"

#include <dlfcn.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace warpverbs::inline v0_2::host {
namespace {

thread_local SocketFault injected;
thread_local int calls = 0;

template <class Function>
Function* TheirOwn(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

/// Returns whether this call fails, with errno set.
bool Fails() {
  if (calls++ != injected.call) return false;
  errno = injected.error;
  return true;
}

/// Returns whether this call, which moves data, is interrupted.
bool IsInterrupted() {
  if (!injected.piecewise || calls % 2 == 0) return false;
  errno = EINTR;
  return true;
}

/// Moves only the first byte if the fault is piecewise. Files go with it.
ssize_t Piecewise(ssize_t (*own)(int, msghdr*, int), int fd, msghdr* message, int flags) {
  if (Fails() || IsInterrupted()) return -1;
  size_t& bytes = message->msg_iov->iov_len;
  if (injected.piecewise && bytes > 1) bytes = 1;
  return own(fd, message, flags);
}

}  // namespace

void Inject(const SocketFault& fault) {
  injected = fault;
  calls = 0;
}

int SocketCalls() { return calls; }

}  // namespace warpverbs::inline v0_2::host

using warpverbs::host::Fails;
using warpverbs::host::injected;
using warpverbs::host::IsInterrupted;
using warpverbs::host::Piecewise;
using warpverbs::host::TheirOwn;

extern "C" {

int socket(int domain, int type, int protocol) noexcept {
  static auto* const own = TheirOwn(&socket, "socket");
  return Fails() ? -1 : own(domain, type, protocol);
}

int connect(int fd, const sockaddr* address, socklen_t bytes) {
  static auto* const own = TheirOwn(&connect, "connect");
  if (!Fails()) return own(fd, address, bytes);
  if (errno == EINTR) {  // an interrupted connect() continues in the background: connect(2)
    own(fd, address, bytes);
    errno = EINTR;
  }
  return -1;
}

int bind(int fd, const sockaddr* address, socklen_t bytes) noexcept {
  static auto* const own = TheirOwn(&bind, "bind");
  return Fails() ? -1 : own(fd, address, bytes);
}

int listen(int fd, int backlog) noexcept {
  static auto* const own = TheirOwn(&listen, "listen");
  return Fails() ? -1 : own(fd, backlog);
}

int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  static auto* const own = TheirOwn(&accept4, "accept4");
  return Fails() ? -1 : own(fd, address, bytes, flags);
}

int poll(pollfd* files, nfds_t count, int timeout) {
  static auto* const own = TheirOwn(&poll, "poll");
  return Fails() ? -1 : own(files, count, timeout);
}

ssize_t recv(int fd, void* buffer, size_t bytes, int flags) {
  static auto* const own = TheirOwn(&recv, "recv");
  if (Fails() || IsInterrupted()) return -1;
  return own(fd, buffer, injected.piecewise && bytes > 1 ? 1 : bytes, flags);
}

ssize_t send(int fd, const void* buffer, size_t bytes, int flags) {
  static auto* const own = TheirOwn(&send, "send");
  if (Fails() || IsInterrupted()) return -1;
  return own(fd, buffer, injected.piecewise && bytes > 1 ? 1 : bytes, flags);
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const own = TheirOwn(&recvmsg, "recvmsg");
  return Piecewise(own, fd, message, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const own = reinterpret_cast<ssize_t (*)(int, msghdr*, int)>(TheirOwn(&sendmsg, "sendmsg"));
  return Piecewise(own, fd, const_cast<msghdr*>(message), flags);
}

}  // extern "C"
