#include "connect/deadline_wait.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <thread>

#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestUnchecked(100), kShortestUnchecked(50);

thread_local void (*wait_check)() = nullptr;
thread_local Deadline next_check;

}  // namespace

WaitCheck::WaitCheck(void (*check)()) : outer_(wait_check) { wait_check = check; }
WaitCheck::~WaitCheck() { wait_check = outer_; }

void CallWaitCheck() {
  if (wait_check == nullptr) return;
  const Deadline now = std::chrono::steady_clock::now();
  if (now < next_check) return;
  next_check = now + kShortestUnchecked;
  wait_check();
}

Deadline DeadlineWait::Share(size_t to_come) const {
  constexpr std::chrono::seconds kLongestTry(2);
  if (to_come == 0) return deadline_;
  const auto now = std::chrono::steady_clock::now();
  const Deadline::duration left = std::max(deadline_, now) - now;
  return now + std::min<Deadline::duration>(left / (to_come + 1), kLongestTry);
}

int DeadlineWait::Milliseconds() const {
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
    CallWaitCheck();
    pollfd file{.fd = fd, .events = events, .revents = 0};
    const int most =
        wait_check == nullptr ? std::numeric_limits<int>::max() : static_cast<int>(kLongestUnchecked.count());
    const int ready = poll(&file, 1, std::min(Milliseconds(), most));
    if (ready > 0 || (ready < 0 && errno != EINTR)) return ready;
    if (ready == 0 && over()) return 0;
  }
}

void DeadlineWait::SleepUntil(Deadline time) const {
  const Deadline end = std::min(time, deadline_);
  for (Deadline now = std::chrono::steady_clock::now(); now < end; now = std::chrono::steady_clock::now()) {
    CallWaitCheck();
    std::this_thread::sleep_until(wait_check == nullptr ? end : std::min(end, now + kLongestUnchecked));
  }
}

bool DeadlineWait::Until(const std::function<bool()>& done) const {
  using std::chrono::microseconds;
  constexpr microseconds kFirst(10), kLongest(1000);
  for (microseconds pause = kFirst;; pause = std::min(2 * pause, kLongest)) {
    const bool is_last = over();  // read first: it looks once more after the deadline
    if (done()) return true;
    if (is_last) return false;
    SleepUntil(std::chrono::steady_clock::now() + pause);
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
