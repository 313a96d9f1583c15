#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "common/thread.hpp"
#include "perf/control/figures.hpp"
#include "perf/initiator/shared_arena.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/rounds.hpp"
#include "perf/measure/validation.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint32_t kMaxStamps = 20000;  // as in perftest, to bound the memory

/// Measures one message size.
class BandwidthTest {
 public:
  BandwidthTest(PerfSide& side, ControlChannel& control, const Options& options, uint64_t bytes)
      : side_(side),
        control_(control),
        options_(options),
        layout_(side.LayoutFor(bytes)),
        multiple_(Posts() && !options.posting.single_thread() ? options.posting.messages_per_round() : 1),
        arena_(side.initiator(), ArenaBytes()) {
    flows_ = arena_.Allocate<Flow>(side.flows());
    receives_ = arena_.Allocate<ReceiveFlow>(side.flows());
    spans_ = arena_.Allocate<Span>(size_t{side.flows()} * options.posting.posters);
    sent_ = arena_.Allocate<LaunchResult>(1);
    received_ = arena_.Allocate<LaunchResult>(1);
    if (Stamps()) posted_ = arena_.Allocate<uint64_t>(Stamps());
    if (Stamps()) completed_ = arena_.Allocate<uint64_t>(Stamps());
    for (uint32_t i = 0; i < side.flows(); ++i) {
      flows_[i] = side.FlowOf(i, layout_);
      if (options.verb == Verb::kSend) receives_[i] = side.ReceivesOf(i);
    }
  }

  BandwidthFigures Measure() {
    const uint32_t max = options_.data_validation ? std::max(layout_.slots, multiple_) : 0;
    Rounds(control_, options_, multiple_, max).Run([this](uint32_t count, bool counts) {
      Round(count, counts);
    });
    BandwidthFigures figures = AverageOf(layout_.bytes, messages_, ns_);
    figures.peak = peak_;
    return figures;
  }

 private:
  bool Posts() const { return options_.posts(); }
  bool IsTarget() const { return !options_.is_client() || options_.bidirectional; }
  /// Returns whether data leaves, and whether it arrives in, this side's memory.
  bool IsSource() const { return options_.verb == Verb::kRead ? IsTarget() : Posts(); }
  bool IsSink() const { return options_.verb == Verb::kRead ? Posts() : IsTarget(); }
  bool Receives() const { return options_.verb == Verb::kSend && IsTarget(); }

  /// Returns the number of messages that are timed.
  size_t Stamps() const {
    const bool few = options_.iterations != 0 && options_.iterations <= kMaxStamps;
    if (!few || options_.no_peak || !options_.posting.single_thread()) return 0;
    return size_t{options_.qps} * options_.iterations;
  }

  size_t ArenaBytes() const {
    return SharedArena::Bytes<Flow>(options_.qps) + SharedArena::Bytes<ReceiveFlow>(options_.qps) +
           SharedArena::Bytes<Span>(size_t{options_.qps} * options_.posting.posters) +
           2 * SharedArena::Bytes<LaunchResult>(1) + 2 * SharedArena::Bytes<uint64_t>(Stamps());
  }

  void Round(uint32_t count, bool counts) {
    Prepare();
    control_.Swap({{"ready", count}}, "its notice that it is ready");
    std::fill_n(spans_, options_.qps * options_.posting.posters, Span{});
    *sent_ = *received_ = {};
    const auto part = [&] {
      Run(count);
      if (Posts()) side_.Check(*sent_);
      if (Receives()) side_.Check(*received_);
    };
    control_.RunTogether(part, [this] {
      for (LaunchResult* const result : {sent_, received_}) PerfSide::Stop(*result);
    });
    Validate(count);
    if (Receives()) side_.CountReceived(count);
    ++round_;
    if (counts && Posts()) Count(count);
  }

  void Prepare() {
    if (!options_.data_validation) return;
    if (options_.is_atomic()) {
      if (IsTarget()) ClearTargets(side_, layout_);
      return;
    }
    if (IsSource()) FillSources(side_, layout_, round_);
    if (IsSink()) ClearTargets(side_, layout_);
  }

  void Validate(uint32_t count) const {
    if (!options_.data_validation) return;
    if (options_.is_atomic()) {
      if (IsTarget()) CheckCounts(side_, layout_, count);
    } else if (IsSink()) {
      CheckTargets(side_, layout_, round_, count, Receives() ? side_.NextSlot(layout_) : 0);
    }
  }

  /// Sends, receives, or both at once.
  void Run(uint32_t count) {
    if (!Receives()) {
      if (Posts()) Send(count);
      return;
    }
    if (!Posts()) return Receive(count);
    std::exception_ptr failure;
    {
      const std::jthread receiver = programs::StartThread("that receives", [&]() noexcept {
        try {
          Receive(count);
        } catch (...) {
          failure = std::current_exception();
        }
      });
      Send(count);
    }
    if (failure) std::rethrow_exception(failure);
  }

  void Send(uint32_t count) {
    const bool stamps = Stamps() >= size_t{count} * options_.qps;
    side_.initiator().Stream({.flows = flows_,
                              .flow_count = side_.flows(),
                              .count = count,
                              .batch = options_.posting.batch,
                              .cq_mod = options_.CqModFor(layout_.bytes),
                              .tx_depth = options_.tx_depth,
                              .posters = options_.posting.posters,
                              .timeout_ns = TimeoutNs(),
                              .posted_ns = stamps ? posted_ : nullptr,
                              .completed_ns = stamps ? completed_ : nullptr,
                              .spans = spans_,
                              .result = sent_},
                             options_.verb, options_.posting);
  }

  void Receive(uint32_t count) {
    side_.initiator().Receive({.flows = receives_,
                               .flow_count = side_.flows(),
                               .count = count,
                               .timeout_ns = TimeoutNs(),
                               .result = received_});
  }

  uint64_t TimeoutNs() const {
    return static_cast<uint64_t>(std::chrono::nanoseconds(options_.timeout).count());
  }

  /// Adds a round to the figures.
  void Count(uint32_t count) {
    uint64_t begin = std::numeric_limits<uint64_t>::max(), end = 0;
    for (uint32_t i = 0; i < options_.qps * options_.posting.posters; ++i) {
      begin = std::min(begin, spans_[i].begin_ns);
      end = std::max(end, spans_[i].end_ns);
    }
    ns_ += end - begin;
    const uint64_t messages = uint64_t{count} * options_.qps;
    messages_ += messages;
    if (Stamps() < messages) return;
    const std::span posted(posted_, messages), completed(completed_, messages);
    std::sort(posted.begin(), posted.end());
    std::sort(completed.begin(), completed.end());
    peak_ = std::max(peak_, PeakOf(layout_.bytes, posted, completed));
  }

  PerfSide& side_;
  ControlChannel& control_;
  const Options& options_;
  Layout layout_;
  uint32_t multiple_;
  SharedArena arena_;
  Flow* flows_ = nullptr;
  ReceiveFlow* receives_ = nullptr;
  Span* spans_ = nullptr;
  LaunchResult* sent_ = nullptr;
  LaunchResult* received_ = nullptr;
  uint64_t* posted_ = nullptr;
  uint64_t* completed_ = nullptr;
  uint64_t round_ = 0;
  uint64_t messages_ = 0, ns_ = 0;
  double peak_ = 0;
};

}  // namespace

BandwidthFigures MeasureBandwidth(PerfSide& side, ControlChannel& control, const Options& options,
                                  uint64_t bytes) {
  const BandwidthFigures mine = BandwidthTest(side, control, options, bytes).Measure();
  const BandwidthFigures theirs = BandwidthFrom(control.Swap(ToJson(mine), "its figures"));
  if (!options.bidirectional) return options.is_client() ? mine : theirs;
  BandwidthFigures sum = options.is_client() ? mine : theirs;  // the client's messages and bytes
  sum.average = mine.average + theirs.average;
  sum.peak = mine.peak + theirs.peak;
  sum.rate = mine.rate + theirs.rate;
  return sum;
}

}  // namespace warpverbs::perf
