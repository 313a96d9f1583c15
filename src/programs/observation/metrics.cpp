#include <cstdio>
#include <functional>

#include "observation/observation_file.hpp"

namespace warpverbs::programs {
namespace {

std::string Escaped(const std::string& value) {
  std::string escaped;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') escaped += '\\';
    escaped += letter == '\n' ? ' ' : letter;
  }
  return escaped;
}

std::string Labels(const ObservationFile& file, const ObservedQueue& queue) {
  char qpn[16];
  std::snprintf(qpn, sizeof qpn, "0x%x", queue.qpn);
  return "program=\"" + Escaped(file.program) + "\",pid=\"" + std::to_string(file.pid) + "\",device=\"" +
         Escaped(queue.device) + "\",port=\"" + std::to_string(queue.port) + "\",qp=\"" + qpn + "\"";
}

std::string Seconds(uint64_t ns) {
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  char text[32];
  std::snprintf(text, sizeof text, "%llu.%09llu", static_cast<unsigned long long>(ns / kNsPerSecond),
                static_cast<unsigned long long>(ns % kNsPerSecond));
  return text;
}

/// A metric of each queue, or of each cause of its stalls.
class Family {
 public:
  Family(const std::vector<ObservationFile>& files, std::string& text) : files_(files), text_(text) {}

  void Count(const char* name, const char* help, uint64_t device::QueueCounters::*count) {
    Begin(name, help, "counter");
    ForEach([&](const std::string& labels, const device::QueueCounters& counters) {
      Add(name, labels, std::to_string(counters.*count));
    });
  }
  void OfStalls(const char* name, const char* help, const char* type,
                const std::function<std::string(const device::StallCounters&)>& value) {
    Begin(name, help, type);
    ForEach([&](const std::string& labels, const device::QueueCounters& counters) {
      for (uint32_t cause = 0; cause < device::kStallCauses; ++cause) {
        Add(name, labels + ",cause=\"" + kStallNames[cause] + "\"", value(counters.stalls[cause]));
      }
    });
  }

 private:
  void Begin(const std::string& name, const std::string& help, const std::string& type) {
    text_ += "# HELP " + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void ForEach(const std::function<void(const std::string&, const device::QueueCounters&)>& add) const {
    for (const ObservationFile& file : files_)
      for (const ObservedQueue& queue : file.queues) add(Labels(file, queue), queue.counters);
  }
  void Add(const std::string& name, const std::string& labels, const std::string& value) {
    text_ += name + "{" + labels + "} " + value + "\n";
  }

  const std::vector<ObservationFile>& files_;
  std::string& text_;
};

}  // namespace

std::string MetricsText(const std::vector<ObservationFile>& files) {
  using device::QueueCounters;
  using device::StallCounters;
  std::string text;
  Family family(files, text);
  family.Count("warpverbs_posts_total", "Posts, lists and batches that were published.",
               &QueueCounters::posts);
  family.Count("warpverbs_wqebbs_total", "Slots of the send queue that they took.", &QueueCounters::wqebbs);
  family.Count("warpverbs_doorbells_total", "Doorbells that were rung.", &QueueCounters::doorbells);
  family.Count("warpverbs_elided_doorbells_total", "Posts that left their doorbell to a later poster.",
               &QueueCounters::elided);
  family.Count("warpverbs_polls_total", "Looks for completions.", &QueueCounters::polls);
  family.OfStalls("warpverbs_stalls_total", "Waits for free slots, earlier posters or completions.",
                  "counter", [](const StallCounters& stall) { return std::to_string(stall.count); });
  family.OfStalls("warpverbs_stalled_seconds_total", "Time of these waits.", "counter",
                  [](const StallCounters& stall) { return Seconds(stall.total_ns); });
  family.OfStalls("warpverbs_longest_stall_seconds", "The longest of these waits.", "gauge",
                  [](const StallCounters& stall) { return Seconds(stall.longest_ns); });
  return text;
}

}  // namespace warpverbs::programs
