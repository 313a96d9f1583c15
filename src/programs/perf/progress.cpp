#include "perf/progress.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <system_error>

namespace warpverbs::perf {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::seconds;

void Show(const std::stop_token& stop, const std::string& what, const std::string& of) {
  std::mutex mutex;
  std::condition_variable_any stopped;
  std::unique_lock lock(mutex);
  const Clock::time_point start = Clock::now();
  for (Seconds past{0}; !stop.stop_requested(); past = std::chrono::floor<Seconds>(Clock::now() - start)) {
    std::fprintf(stderr, "\r measuring %s: %lld%s s\033[K", what.c_str(),
                 static_cast<long long>(past.count()), of.c_str());
    stopped.wait_until(lock, stop, start + past + Seconds(1), [] { return false; });
  }
}

}  // namespace

Progress::Progress(uint64_t bytes, const std::string& initiator, double duration_s) {
  if (isatty(STDERR_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return;
  char of[32] = "";
  if (duration_s > 0) std::snprintf(of, sizeof of, " of %g", duration_s);
  try {
    thread_ = std::jthread(Show, std::to_string(bytes) + " bytes, " + initiator, std::string(of));
  } catch (const std::system_error&) {  // no thread left: measure without progress
  }
}

Progress::~Progress() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
  std::fputs("\r\033[K", stderr);
}

}  // namespace warpverbs::perf
