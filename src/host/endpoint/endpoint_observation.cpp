#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <sstream>

#include "endpoint/endpoint_impl.hpp"
#include "queue/queue_chunk.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/observation.hpp"

/// What posters have counted and traced.
namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;
using device::QueueControl;
using device::QueueCounters;
using device::TraceEvent;

constexpr int kObservationVersion = 1;
constexpr const char* kStallNames[device::kStallCauses] = {"full", "turn", "completion"};

/// Copies words that posters may be changing.
template <class T>
T LoadWords(const std::byte* from) {
  T value;
  static_assert(sizeof value % sizeof(uint64_t) == 0);
  const auto* const words = reinterpret_cast<const uint64_t*>(from);
  auto* const copies = reinterpret_cast<uint64_t*>(&value);
  for (size_t i = 0; i < sizeof value / sizeof(uint64_t); ++i) copies[i] = Cpu::Load(words + i);
  return value;
}

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char letter : text) {
    const bool plain = letter >= ' ' && letter <= '~' && letter != '"' && letter != '\\';
    quoted += plain ? letter : '?';
  }
  return quoted + "\"";
}

std::string ToJson(const QueueCounters& counters) {
  std::ostringstream text;
  text << R"({"posts":)" << counters.posts << R"(,"wqebbs":)" << counters.wqebbs << R"(,"doorbells":)"
       << counters.doorbells << R"(,"elided":)" << counters.elided << R"(,"polls":)" << counters.polls
       << R"(,"stalls":{)";
  for (uint32_t cause = 0; cause < device::kStallCauses; ++cause) {
    const device::StallCounters& stall = counters.stalls[cause];
    text << (cause == 0 ? "" : ",") << Quoted(kStallNames[cause]) << R"(:{"count":)" << stall.count
         << R"(,"total_ns":)" << stall.total_ns << R"(,"longest_ns":)" << stall.longest_ns << "}";
  }
  text << "}}";
  return text.str();
}

std::string ToJson(const std::vector<TracedStep>& steps) {
  std::ostringstream text;
  text << "[";
  for (const TracedStep& step : steps) {
    text << (&step == steps.data() ? "\n" : ",\n") << "[" << static_cast<uint32_t>(step.kind) << ","
         << step.event.index << "," << step.event.time_ns << "," << step.event.value << "]";
  }
  text << "]";
  return text.str();
}

[[noreturn]] void Fail(const std::string& file, int error_number) {
  throw Error::FromErrno("write", file, error_number, "Name a file in a folder that this program may write");
}

/// Writes the text to a file beside the named one, and renames it.
void Replace(const std::string& file, const std::string& text) {
  const std::string written = file + "." + std::to_string(getpid());
  std::FILE* const stream = std::fopen(written.c_str(), "we");
  if (stream == nullptr) Fail(file, errno);
  const bool whole = std::fwrite(text.data(), 1, text.size(), stream) == text.size();
  const int write_error = errno;
  const bool closed = std::fclose(stream) == 0;
  const int error = whole ? errno : write_error;
  if (whole && closed && std::rename(written.c_str(), file.c_str()) == 0) return;
  const int last = whole && closed ? errno : error;
  static_cast<void>(::unlink(written.c_str()));
  Fail(file, last);
}

}  // namespace

QueueCounters Endpoint::Impl::Counters() const {
  std::vector<std::byte> copy;
  return LoadWords<QueueCounters>(
      memory_.Read(layout_.control + offsetof(QueueControl, counters), sizeof(QueueCounters), copy));
}

void Endpoint::Impl::MakeTraceRing() {
  if (config_.trace_slots == 0) return;
  trace_memory_ =
      OwnHostMemory(gpu_ ? &*gpu_ : nullptr, sizeof(TraceEvent) * device::kTraceKinds * config_.trace_slots);
}

/// Returns the events of the last `trace_slots` slots: the ring may have older ones where later posts had no
/// such step.
std::vector<TracedStep> Endpoint::Impl::Trace() const {
  std::vector<TracedStep> steps;
  const uint32_t slots = trace_memory_ ? config_.trace_slots : 0;
  for (uint32_t place = 0; place < device::kTraceKinds * slots; ++place) {
    const auto event = LoadWords<TraceEvent>(trace_memory_.get() + sizeof(TraceEvent) * place);
    if (event.time_ns != 0) steps.push_back({static_cast<device::TraceKind>(place / slots), event});
  }
  std::ranges::stable_sort(steps, {}, [](const TracedStep& step) { return step.event.time_ns; });
  if (steps.empty()) return steps;
  const auto newest = std::ranges::max_element(steps, [](const TracedStep& a, const TracedStep& b) {
    return static_cast<int32_t>(a.event.index - b.event.index) < 0;
  });
  std::erase_if(steps, [last = newest->event.index, slots](const TracedStep& step) {
    return last - step.event.index >= slots;
  });
  return steps;
}

QueueCounters Endpoint::Counters() const { return impl_->Counters(); }
std::vector<TracedStep> Endpoint::Trace() const { return impl_->Trace(); }

void SaveObservations(const std::string& file, std::span<const Endpoint* const> endpoints) {
  std::ostringstream text;
  text << R"({"version":)" << kObservationVersion << R"(,"pid":)" << getpid() << R"(,"program":)"
       << Quoted(program_invocation_short_name) << R"(,"queues":[)";
  for (const Endpoint* const& endpoint : endpoints) {
    text << (&endpoint == endpoints.data() ? "\n" : ",\n") << R"({"device":)"
         << Quoted(endpoint->device().name()) << R"(,"port":)" << int{endpoint->port()} << R"(,"qpn":)"
         << endpoint->qpn() << R"(,"clock":)" << Quoted(endpoint->posters_on_gpu() ? "gpu" : "host")
         << R"(,"counters":)" << ToJson(endpoint->Counters()) << R"(,"trace":)" << ToJson(endpoint->Trace())
         << "}";
  }
  text << "]}\n";
  Replace(file, text.str());
}

}  // namespace warpverbs::inline v0_2::host
