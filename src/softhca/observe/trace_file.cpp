#include "observe/trace_file.hpp"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

namespace softhca {
namespace {

constexpr size_t kTraceBufferBytes = 1 << 16;
constexpr uint64_t kFlushNs = 20'000'000;
constexpr uint64_t kSliceNs = 20;  // long enough to be visible, short enough not to overlap

uint64_t ClockNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

std::string Quote(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Formats a time in microseconds, the format's unit.
std::string Microseconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned long long>(ns % 1000));
  return text;
}

}  // namespace

TraceFile::TraceFile(const std::string& file) : file_(file, "events") {
  pending_ = "[\n";
  Event('M', 0, "process_name", 0,
        R"(,"args":{"name":)" + Quote(std::string("softhca ") + program_invocation_short_name) + "}", {});
  Flush();
}

uint64_t TraceFile::NextNs() { return last_ns_ = std::max(ClockNs(), last_ns_ + kSliceNs + 1); }

void TraceFile::Event(char phase, uint32_t track, const std::string& name, uint64_t at_ns,
                      const std::string& more, TraceArgs args) {
  if (closed_) return;
  if (!empty_) pending_ += ",\n";
  empty_ = false;
  pending_ += std::string(R"({"ph":")") + phase + R"(","pid":)" + std::to_string(getpid()) + R"(,"tid":)" +
              std::to_string(track) + R"(,"name":)" + Quote(name) + R"(,"ts":)" + Microseconds(at_ns) + more;
  if (args.size() != 0) {
    const char* separator = R"(,"args":{)";
    for (const auto& [key, value] : args) {
      pending_ += separator + Quote(key) + ":" + std::to_string(value);
      separator = ",";
    }
    pending_ += "}";
  }
  pending_ += "}";
  ++pending_events_;
  if (pending_.size() > kTraceBufferBytes) Flush();
}

void TraceFile::NameTrack(uint32_t track, const std::string& name) {
  Event('M', track, "thread_name", 0, R"(,"args":{"name":)" + Quote(name) + "}", {});
}

void TraceFile::Instant(uint32_t track, const std::string& name, TraceArgs args) {
  Event('i', track, name, NextNs(), track == 0 ? R"(,"s":"p")" : R"(,"s":"t")", args);
}

uint64_t TraceFile::Slice(uint32_t track, const std::string& name, TraceArgs args) {
  const uint64_t now_ns = NextNs();
  Event('X', track, name, now_ns, R"(,"dur":)" + Microseconds(kSliceNs), args);
  return now_ns;
}

void TraceFile::Flow(uint32_t track, char phase, uint64_t id, uint64_t at_ns) {
  const std::string bound = phase == 'f' ? R"(,"bp":"e")" : "";
  Event(phase, track, "request", at_ns,
        R"(,"cat":"request","id":")" + std::to_string(getpid()) + "." + std::to_string(id) + "\"" + bound,
        {});
}

void TraceFile::Async(uint32_t track, char phase, const std::string& name, uint64_t id, uint64_t at_ns,
                      TraceArgs args) {
  Event(phase, track, name, at_ns,
        R"(,"cat":"entry","id":")" + std::to_string(getpid()) + "." + std::to_string(id) + "\"", args);
}

void TraceFile::Flush() {
  file_.Append({reinterpret_cast<const uint8_t*>(pending_.data()), pending_.size()}, pending_events_);
  pending_.clear();
  pending_events_ = 0;
  flushed_ns_ = ClockNs();
}

void TraceFile::FlushIfDue() {
  if (!pending_.empty() && ClockNs() - flushed_ns_ > kFlushNs) Flush();
}

void TraceFile::Close() {
  if (closed_) return;
  pending_ += "\n]\n";
  closed_ = true;
  Flush();
  file_.End();
}

}  // namespace softhca
