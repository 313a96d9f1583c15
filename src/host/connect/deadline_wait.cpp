#include "connect/deadline_wait.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <thread>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {

Deadline DeadlineWait::Share(size_t to_come) const {
  constexpr std::chrono::seconds kLongestTry(2);
  if (to_come == 0) return deadline_;
  const auto now = std::chrono::steady_clock::now();
  const Deadline::duration left = std::max(deadline_, now) - now;
  return now + std::min<Deadline::duration>(left / (to_come + 1), kLongestTry);
}

int DeadlineWait::Milliseconds() const {
  using std::chrono::milliseconds;
  const auto now = std::chrono::steady_clock::now();
  const auto left = std::chrono::ceil<milliseconds>(std::max(deadline_, now) - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, std::numeric_limits<int>::max()));
}

std::string DeadlineWait::Within() const {
  const auto time = std::max(deadline_, start_) - start_;
  char text[48];
  std::snprintf(text, sizeof text, "within %.3g s", std::chrono::duration<double>(time).count());
  return text;
}

int DeadlineWait::Poll(int fd, short events) const {
  while (true) {
    pollfd file{.fd = fd, .events = events, .revents = 0};
    const int ready = poll(&file, 1, Milliseconds());
    if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    if (ready == 0 && over()) return 0;
  }
}

bool DeadlineWait::Until(const std::function<bool()>& done) const {
  using std::chrono::microseconds;
  constexpr microseconds kFirst(10), kLongest(1000);
  for (microseconds pause = kFirst;; pause = std::min(2 * pause, kLongest)) {
    const bool is_last = over();  // read first: it looks once more after the deadline
    if (done()) return true;
    if (is_last) return false;
    std::this_thread::sleep_until(std::min(std::chrono::steady_clock::now() + pause, deadline_));
  }
}

bool DeadlineWait::ForEvents(int fd, short events) const {
  const int ready = Poll(fd, events);
  if (ready < 0) {
    throw Error::FromErrno("wait for", "file descriptor " + std::to_string(fd), errno,
                           "Free memory on this machine");
  }
  return ready > 0;
}

}  // namespace warpverbs::inline v0_2::host
