#include "observation/perfetto.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <stdexcept>

namespace warpverbs::programs {
namespace {

using Json = nlohmann::json;
using device::TraceKind;

constexpr uint32_t kFirstTrack = 1 << 24;  ///< softhca numbers its tracks from 1; a queue pair has 24 bits

std::string NameOf(const ObservedQueue& queue) {
  char qpn[16];
  std::snprintf(qpn, sizeof qpn, "0x%x", queue.qpn);
  return queue.device + " QP " + qpn;  // as softhca writes it
}

double Microseconds(int64_t ns) { return static_cast<double>(ns) / 1000; }
int64_t Nanoseconds(const Json& event) { return std::llround(event.at("ts").get<double>() * 1000); }

/// Returns the times of softhca's last events of a name on a queue pair's track, by an argument.
std::map<uint16_t, int64_t> TimesOf(const Json& softhca, const ObservationFile& file,
                                    const ObservedQueue& queue, const std::string& name,
                                    const char* argument) {
  const std::string track_name = NameOf(queue) + " ";
  std::map<uint16_t, int64_t> times;
  Json track;
  for (const Json& event : softhca) {
    if (event.at("pid") != file.pid) continue;
    if (event.at("ph") == "M" && event.at("name") == "thread_name" &&
        event.at("args").at("name").get<std::string>().starts_with(track_name)) {
      track = event.at("tid");
    } else if (event.at("ph") == "X" && event.at("tid") == track && event.at("name") == name) {
      times[event.at("args").at(argument).get<uint16_t>()] = Nanoseconds(event);
    }
  }
  return times;
}

/// The begin or the end of an event that others may overlap. Those of one post are nested.
Json Async(const Json& base, const char* phase, const std::string& name, const ObservationFile& file,
           const ObservedQueue& queue, uint32_t index, int64_t at_ns) {
  Json event = base;
  event["ph"] = phase;
  event["cat"] = "poster";
  event["id"] = std::to_string(file.pid) + "." + std::to_string(queue.qpn) + "." + std::to_string(index);
  event["name"] = name;
  event["ts"] = Microseconds(at_ns);
  return event;
}

}  // namespace

std::optional<int64_t> ClockOffset(const ObservationFile& file, const ObservedQueue& queue,
                                   const Json& softhca) {
  const auto doorbells = TimesOf(softhca, file, queue, "doorbell", "end");
  const auto completions = TimesOf(softhca, file, queue, "completion", "index");
  int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  constexpr uint32_t kUnique = 1 << 15;  // softhca's events have 16 bits of an index
  const uint32_t newest = queue.trace.empty() ? 0 : queue.trace.back().event.index;
  for (const host::TracedStep& step : queue.trace) {
    const auto& [time_ns, value, index] = step.event;
    if (newest - index >= kUnique) continue;
    const auto began_ns = static_cast<int64_t>(time_ns);
    if (const auto rung = doorbells.find(static_cast<uint16_t>(index + 1));
        step.kind == TraceKind::kPost && rung != doorbells.end())
      most = std::min(most, rung->second - began_ns);
    if (const auto written = completions.find(static_cast<uint16_t>(index));
        step.kind == TraceKind::kDone && written != completions.end())
      least = std::max(least, written->second - began_ns - value);
  }
  if (least == std::numeric_limits<int64_t>::min() || most == std::numeric_limits<int64_t>::max()) return {};
  return least + (most - least) / 2;
}

Json PosterEvents(const ObservationFile& file, const ObservedQueue& queue, int64_t offset_ns) {
  const Json base = {{"pid", file.pid}, {"tid", kFirstTrack + queue.qpn}};
  Json name = base;
  name.update(
      {{"ph", "M"}, {"name", "thread_name"}, {"ts", 0}, {"args", {{"name", "posters of " + NameOf(queue)}}}});
  Json events = Json::array({name});
  std::map<uint32_t, const host::TracedStep*> posts;
  for (const host::TracedStep& step : queue.trace) {
    const uint32_t index = step.event.index;
    const int64_t at_ns = static_cast<int64_t>(step.event.time_ns) + offset_ns;
    const auto add = [&](const char* phase, const char* what, int64_t ns, const Json& args = {}) {
      events.push_back(Async(base, phase, what, file, queue, index, ns));
      if (!args.is_null()) events.back()["args"] = args;
    };
    const auto add_span = [&](const char* what) {
      add("b", what, at_ns, {{"index", index}, {"ns", step.event.value}});
      add("e", what, at_ns + step.event.value);
    };
    switch (step.kind) {
      case TraceKind::kPost:
        posts[index] = &step;
        add("b", "post", at_ns, {{"index", index}, {"slots", step.event.value}});
        break;
      case TraceKind::kFull:
        add_span("wait for free slots");
        break;
      case TraceKind::kTurn:
        add_span("wait for earlier posters");
        break;
      case TraceKind::kDoorbell: {
        if (posts.contains(index)) add("e", "post", at_ns);
        Json instant = base;
        instant.update({{"ph", "i"},
                        {"s", "t"},
                        {"name", step.event.value != 0 ? "doorbell" : "doorbell left to a later poster"},
                        {"ts", Microseconds(at_ns)},
                        {"args", {{"index", index}}}});
        events.push_back(instant);
        break;
      }
      case TraceKind::kWait:
        add_span("wait without completion");
        break;
      case TraceKind::kDone:
        add_span("wait for completion");
        break;
    }
  }
  return events;
}

Json ReadSofthcaTrace(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) {
    throw std::runtime_error("Cannot read " + file + ": " + std::strerror(errno) +
                             ". Name a file that softhca --trace has written.");
  }
  std::stringstream text;
  text << stream.rdbuf();
  std::string whole = text.str();
  while (!whole.empty() && std::strchr("\n, ", whole.back()) != nullptr) whole.pop_back();
  if (!whole.ends_with("]")) whole += "]";  // its process still runs, or was killed
  Json events = Json::parse(whole, nullptr, false);
  if (!events.is_array()) {
    throw std::runtime_error("Cannot read " + file +
                             ": it is no array of events. Name a file that softhca --trace has written.");
  }
  return events;
}

}  // namespace warpverbs::programs
