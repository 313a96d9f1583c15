#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "connect/deadline_wait.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using Message = std::array<uint8_t, SharedMemoryInfo::kBytes>;

constexpr size_t kMaxFiles = 4;  // more than one is an error, but they must be closed

/// One end of the socket, for one transfer.
class ShareSocket {
 public:
  ShareSocket(int socket, const char* step, Deadline deadline)
      : socket_(socket), step_(step), waiting_(deadline) {}

  [[noreturn]] void Fail(const std::string& reason, const char* remedy) const {
    throw Error(step_, kObject, reason, remedy);
  }

  /// Blocks until the socket is ready for `events`.
  ///
  /// @errors  Error: the deadline passed
  void Await(short events) const {
    const int ready = waiting_.Poll(socket_, events);
    if (ready < 0) FailBy(errno);
    if (ready == 0) Fail("the deadline passed", "Check that the peer runs, or give it more time");
  }

  /// Returns whether a call moved nothing yet and must be repeated.
  ///
  /// @errors  Error: the call failed
  bool IsToRepeat(ssize_t moved) const {
    if (moved >= 0) return false;
    if (errno != EAGAIN && errno != EINTR) FailBy(errno);
    return true;
  }

  int get() const { return socket_; }

 private:
  static constexpr char kObject[] = "shared memory over a socket";

  [[noreturn]] void FailBy(int error) const {
    throw Error::FromErrno(step_, kObject, error,
                           "Use a connected Unix socket, and check that the peer still runs");
  }

  int socket_;
  const char* step_;
  DeadlineWait waiting_;
};

/// Space for the file descriptors that come with the bytes.
union Ancillary {
  cmsghdr alignment;
  char bytes[CMSG_SPACE(kMaxFiles * sizeof(int))];
};

/// Takes ownership of the received descriptors, so that they are closed in every case.
void TakeFiles(msghdr& header, std::vector<FileDescriptor>& files) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      files.emplace_back(fd);
    }
  }
}

}  // namespace

void SendShared(int socket, const SharedMemory& shared, Deadline deadline) {
  shared.info.Check();
  const ShareSocket to(socket, "send", deadline);
  Message bytes = shared.info.ToBytes();
  size_t sent = 0;
  while (sent < bytes.size()) {
    to.Await(POLLOUT);
    iovec data{bytes.data() + sent, bytes.size() - sent};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    Ancillary ancillary{};
    if (sent == 0 && shared.file) {  // the file goes with the first byte
      header.msg_control = ancillary.bytes;
      header.msg_controllen = CMSG_SPACE(sizeof(int));
      cmsghdr* const part = CMSG_FIRSTHDR(&header);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(sizeof(int));
      const int fd = shared.file.get();
      std::memcpy(CMSG_DATA(part), &fd, sizeof fd);
    }
    const ssize_t moved = sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (!to.IsToRepeat(moved)) sent += static_cast<size_t>(moved);
  }
}

SharedMemory ReceiveShared(int socket, Deadline deadline) {
  const ShareSocket from(socket, "receive", deadline);
  Message bytes{};
  std::vector<FileDescriptor> files;
  bool cut = false;
  for (size_t received = 0; received < bytes.size();) {
    from.Await(POLLIN);
    iovec data{bytes.data() + received, bytes.size() - received};
    Ancillary ancillary{};
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.bytes;
    header.msg_controllen = sizeof ancillary.bytes;
    files.reserve(files.size() + kMaxFiles);  // nothing may fail between receiving and owning them
    const ssize_t moved = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (from.IsToRepeat(moved)) continue;
    TakeFiles(header, files);
    cut = cut || (header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0;
    if (moved == 0) {
      from.Fail("the peer closed the socket after " + std::to_string(received) + " of " +
                    std::to_string(bytes.size()) + " bytes",
                "Check the peer's error");
    }
    received += static_cast<size_t>(moved);
  }
  SharedMemory shared{SharedMemoryInfo::FromBytes(bytes)};
  const size_t wanted = shared.info.kind == ShareKind::kCudaIpc ? 0 : 1;
  if (cut || files.size() != wanted) {
    from.Fail(std::to_string(files.size()) + " file(s) came with it instead of " + std::to_string(wanted),
              "Send it by SendShared(), and raise the limit on open files (ulimit -n)");
  }
  if (wanted != 0) shared.file = std::move(files.front());
  return shared;
}

}  // namespace warpverbs::inline v0_2::host
