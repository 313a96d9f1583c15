#include "log/log_writer.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>

#include "sync/mutex.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kWriteTimeout{100};
constexpr size_t kAtOnce = 4096;  // PIPE_BUF: a writable pipe takes this much in one piece

sync::Mutex write_mutex;
const ForkSafe<write_mutex> fork_safe_writer;
uint64_t dropped_lines WARPVERBS_GUARDED_BY(write_mutex) = 0;  // since the last written line
bool is_cut WARPVERBS_GUARDED_BY(write_mutex) = false;         // the first of those lines was written in part

bool HasRoom(steady_clock::time_point until) {
  pollfd file{fileno(stderr), POLLOUT, 0};
  if (file.fd < 0) return true;  // a stream without a file, made by the program
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
    const int ready = poll(&file, 1, std::max(0, static_cast<int>(left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR || left.count() <= 0) return false;
  }
}

/// Writes in one call, because lines of threads would mix otherwise.
void Put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void ReportDroppedLines() WARPVERBS_REQUIRES(write_mutex) {
  char line[160];
  const int bytes = std::snprintf(line, sizeof line,
                                  "%s[warpverbs] [warn] stderr was full; lines missing here: %" PRIu64
                                  ". Read it faster.\n",
                                  is_cut ? "\n" : "", dropped_lines);
  Put({line, std::min(static_cast<size_t>(bytes), sizeof line - 1)});
  dropped_lines = 0;
  is_cut = false;
}

}  // namespace

void WriteToStderr(std::string_view line) {
  const sync::LockGuard lock(write_mutex);
  const steady_clock::time_point now = steady_clock::now();
  if (dropped_lines != 0) {
    if (!HasRoom(now)) {
      ++dropped_lines;
      return;
    }
    ReportDroppedLines();
  }
  for (size_t at = 0; at < line.size(); at += kAtOnce) {
    if (!HasRoom(now + kWriteTimeout)) {
      dropped_lines = 1;
      is_cut = at != 0;
      return;
    }
    Put(line.substr(at, kAtOnce));
  }
}

}  // namespace warpverbs::inline v0_2::host
