#include "waiting.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>

#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

int Waiting::Milliseconds() const {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
}

std::string Waiting::Within() const {
  const auto time = std::max(deadline_ - start_, Deadline::duration::zero());
  char text[48];
  std::snprintf(text, sizeof text, "within %.3g s", std::chrono::duration<double>(time).count());
  return text;
}

bool Waiting::ForEvents(int fd, short events) const {
  while (true) {
    pollfd file{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&file, 1, Milliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) {
      throw Error::FromErrno("wait for", "file descriptor " + std::to_string(fd), errno,
                             "Free memory on this machine");
    }
    if (over()) return false;
  }
}

}  // namespace warpverbs::host
