#include "log_writer.hpp"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <mutex>

namespace warpverbs::host {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLogPatience{100};
constexpr size_t kAtOnce = 4096;  // PIPE_BUF: a pipe that has any room takes so much

std::mutex write_mutex;
uint64_t lines_left_out = 0;  // since one was written; under write_mutex

bool HasRoom(milliseconds patience) {
  pollfd file{fileno(stderr), POLLOUT, 0};
  if (file.fd < 0) return true;  // it is a stream of the program's own making
  const steady_clock::time_point deadline = steady_clock::now() + patience;
  int ready = poll(&file, 1, static_cast<int>(patience.count()));
  while (ready < 0 && errno == EINTR && steady_clock::now() < deadline) ready = poll(&file, 1, 1);
  return ready > 0;
}

/// At once, or lines of threads would mix.
void Put(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

void TellOfThoseLeftOut() {
  char line[160];
  const int bytes =
      std::snprintf(line, sizeof line,
                    "[warpverbs] [warn] stderr took no more for a while; lines that are missing "
                    "here: %" PRIu64 ". Read it faster.\n",
                    lines_left_out);
  Put({line, std::min(static_cast<size_t>(bytes), sizeof line - 1)});
  lines_left_out = 0;
}

}  // namespace

void WriteToStderr(std::string_view line) {
  const std::lock_guard lock(write_mutex);
  if (lines_left_out != 0 && HasRoom(milliseconds(0))) TellOfThoseLeftOut();
  const milliseconds patience = lines_left_out == 0 ? kLogPatience : milliseconds(0);
  for (; !line.empty(); line.remove_prefix(std::min(line.size(), kAtOnce))) {
    if (!HasRoom(patience)) {
      ++lines_left_out;
      return;
    }
    Put(line.substr(0, kAtOnce));
  }
}

}  // namespace warpverbs::host
