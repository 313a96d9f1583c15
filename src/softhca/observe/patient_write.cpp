#include "observe/patient_write.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <ctime>

namespace softhca {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Blocks the signals that a write() may raise in the thread, and takes back those that were raised.
class WriteSignals {
 public:
  WriteSignals() {
    sigemptyset(&raised_);
    sigaddset(&raised_, SIGPIPE);
    sigaddset(&raised_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ}) {
      if (sigismember(&pending, signal) == 1) sigdelset(&raised_, signal);  // the program's own
    }
    pthread_sigmask(SIG_BLOCK, &raised_, &before_);
  }
  ~WriteSignals() {
    const timespec at_once{};
    while (sigtimedwait(&raised_, nullptr, &at_once) > 0) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

 private:
  sigset_t raised_, before_;
};

bool IsRegular(int descriptor) {
  struct stat status;
  // Not fstat(): its hook may take a lock.
  return fstatat(descriptor, "", &status, AT_EMPTY_PATH) == 0 && S_ISREG(status.st_mode);
}

/// Writes a part, without waiting where the kernel can say so.
ssize_t WriteSome(int descriptor, bool regular, std::span<const uint8_t> bytes) {
  if (regular) return write(descriptor, bytes.data(), bytes.size());
  constexpr size_t kAtOnce = 4096;  // PIPE_BUF: a pipe that has room takes this much in one piece
  bytes = bytes.first(std::min(bytes.size(), kAtOnce));
  const iovec piece{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  const ssize_t written = pwritev2(descriptor, &piece, 1, -1, RWF_NOWAIT);
  // Another writer may take the room between poll() and a write() that can wait.
  if (written >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)) return written;
  return write(descriptor, bytes.data(), bytes.size());
}

bool HasRoom(int descriptor, milliseconds left) {
  pollfd file{descriptor, POLLOUT, 0};
  return poll(&file, 1, static_cast<int>(left.count())) > 0;
}

}  // namespace

size_t WriteFor(milliseconds timeout, int descriptor, std::span<const uint8_t> bytes, int& error) {
  const WriteSignals signals;
  const bool regular = IsRegular(descriptor);
  const auto end = steady_clock::now() + timeout;
  size_t written = 0;
  error = 0;
  while (written < bytes.size()) {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    if (!HasRoom(descriptor, std::max(left, milliseconds(0)))) {
      error = EAGAIN;
      if (left.count() <= 0) break;
      continue;  // a signal, or the end of the time
    }
    const ssize_t count = WriteSome(descriptor, regular, bytes.subspan(written));
    if (count > 0) {
      written += static_cast<size_t>(count);
      error = 0;
    } else {
      error = errno;
      if (error != EINTR && error != EAGAIN) break;
      if (left.count() <= 0) break;
      if (error == EAGAIN) poll(nullptr, 0, 1);  // room, but not enough of it
    }
  }
  if (error == EINTR) error = EAGAIN;
  return written;
}

void PrintError(const std::string& text) {
  static std::atomic<bool> behind = false;  // the latest text was lost: do not wait once more for each
  const std::string line = "softhca: " + text + "\n";
  int error = 0;
  WriteFor(milliseconds(behind ? 0 : 100), STDERR_FILENO,
           {reinterpret_cast<const uint8_t*>(line.data()), line.size()}, error);
  behind = error == EAGAIN;
}

}  // namespace softhca
