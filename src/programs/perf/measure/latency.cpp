#include <algorithm>
#include <span>
#include <vector>

#include "perf/control/figures.hpp"
#include "perf/initiator/shared_arena.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/rounds.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint32_t kMaxSamples = 1 << 20;  // per round, and kept in all

/// Measures one message size.
class LatencyTest {
 public:
  LatencyTest(const PerfSide& side, ControlChannel& control, const Options& options, uint64_t bytes)
      : side_(side),
        control_(control),
        options_(options),
        layout_(side.LayoutFor(bytes)),
        max_(options.iterations != 0 ? std::min(options.iterations, kMaxSamples) : kMaxSamples),
        arena_(side.initiator(),
               SharedArena::Bytes<uint64_t>(max_ + 1) + SharedArena::Bytes<LaunchResult>(1)) {
    stamps_ = arena_.Allocate<uint64_t>(max_ + 1);
    result_ = arena_.Allocate<LaunchResult>(1);
  }

  LatencyFigures Measure() {
    Rounds(control_, options_, 1, max_, max_).Run([this](uint32_t count, bool counts) {
      Round(count, counts);
    });
    LatencyFigures figures = LatencyOf(layout_.bytes, samples_ns_, options_.is_answered() ? 2 : 1);
    if (messages_ > samples_ns_.size())  // later samples are only in the average
      figures.average =
          static_cast<double>(ns_) / 1e3 / static_cast<double>(messages_) / (options_.is_answered() ? 2 : 1);
    figures.messages = messages_;
    return figures;
  }

 private:
  void Round(uint32_t count, bool counts) {
    const LatencyJob job = JobOf(count);
    if (options_.verb == Verb::kWrite) {
      const auto before = static_cast<std::byte>(job.first_mark - 1);
      side_.memory().CopyIn(0, FlowMemory::Part::kTarget, EndOfMessage() - 1, std::span(&before, 1));
    }
    control_.Swap({{"ready", count}}, "its notice that it is ready");
    *result_ = {};
    const auto part = [&] {
      if (options_.is_answered()) {
        side_.initiator().PingPong(job, options_.verb);
      } else if (options_.is_client()) {
        side_.initiator().PostToCompletion(job, options_.verb);
      }
      side_.Check(*result_);
    };
    control_.RunTogether(part, [this] { PerfSide::Stop(*result_); });
    mark_ = static_cast<uint8_t>(mark_ + count);
    if (!counts || !options_.is_client()) return;
    messages_ += count;
    ns_ += stamps_[count] - stamps_[0];
    for (uint32_t i = 0; i < count && samples_ns_.size() < kMaxSamples; ++i)
      samples_ns_.push_back(stamps_[i + 1] - stamps_[i]);
  }

  /// Returns the offset behind a message's last byte in the target part.
  uint64_t EndOfMessage() const {
    const host::MemoryView target = side_.memory().ViewOf(0, FlowMemory::Part::kTarget);
    return LandingOf(target).addr + layout_.bytes - target.addr;
  }

  /// Returns the memory for the peer's messages. It has the same place on both sides.
  device::LocalMemory LandingOf(const host::MemoryView& target) const {
    const host::MemoryView source = side_.memory().ViewOf(0, FlowMemory::Part::kSource);
    const uint64_t pad = side_.FlowOf(0, layout_).local.addr - source.addr;
    return {target.addr + pad, layout_.bytes, mlx5::ToBe32(target.lkey)};
  }

  LatencyJob JobOf(uint32_t count) const {
    LatencyJob job{.flow = side_.FlowOf(0, layout_),
                   .receives = {},
                   .landing = {},
                   .count = count,
                   .inline_bytes = options_.inline_bytes,
                   .answers = !options_.is_client(),
                   .first_mark = static_cast<uint8_t>(mark_ + 1),
                   .timeout_ns = static_cast<uint64_t>(std::chrono::nanoseconds(options_.timeout).count()),
                   .stamps_ns = stamps_,
                   .result = result_};
    if (!options_.is_answered()) return job;
    job.landing = LandingOf(side_.memory().ViewOf(0, FlowMemory::Part::kTarget));
    if (options_.verb != Verb::kSend) return job;
    const ReceiveFlow receives = side_.ReceivesOf(0);
    job.receives = receives.queue;
    job.landing = receives.local;
    return job;
  }

  const PerfSide& side_;
  ControlChannel& control_;
  const Options& options_;
  Layout layout_;
  uint32_t max_;
  SharedArena arena_;
  uint64_t* stamps_ = nullptr;
  LaunchResult* result_ = nullptr;
  uint8_t mark_ = 0;
  uint64_t messages_ = 0, ns_ = 0;
  std::vector<uint64_t> samples_ns_;
};

}  // namespace

LatencyFigures MeasureLatency(const PerfSide& side, ControlChannel& control, const Options& options,
                              uint64_t bytes) {
  const LatencyFigures mine = LatencyTest(side, control, options, bytes).Measure();
  const LatencyFigures theirs = LatencyFrom(control.Swap(ToJson(mine), "its figures"));
  return options.is_client() ? mine : theirs;
}

}  // namespace warpverbs::perf
