#include "perf/measure/bandwidth.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <thread>
#include <vector>

#include "perf/initiator/stage.hpp"
#include "perf/measure/rounds.hpp"
#include "perf/measure/validation.hpp"
#include "perf/talk/report_words.hpp"
#include "perf/thread.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint32_t kMostStamps = 20000;  // as perftest: more take too much memory

/// One size.
class Streams {
 public:
  Streams(Party& party, Talk& talk, const Options& options, uint64_t bytes)
      : party_(party),
        talk_(talk),
        options_(options),
        layout_(party.LayoutFor(bytes)),
        granule_(Sends() && !options.posting.alone() ? options.posting.by_round() : 1),
        stage_(party.initiator(), StageBytes()) {
    flows_ = stage_.Take<Flow>(party.flows());
    receives_ = stage_.Take<ReceiveFlow>(party.flows());
    spans_ = stage_.Take<Span>(size_t{party.flows()} * options.posting.posters);
    sent_ = stage_.Take<Report>(1);
    received_ = stage_.Take<Report>(1);
    if (Stamps()) posted_ = stage_.Take<uint64_t>(Stamps());
    if (Stamps()) completed_ = stage_.Take<uint64_t>(Stamps());
    for (uint32_t i = 0; i < party.flows(); ++i) {
      flows_[i] = party.FlowOf(i, layout_);
      if (options.verb == Verb::kSend) receives_[i] = party.ReceivesOf(i);
    }
  }

  BandwidthFigures Measure() {
    const uint32_t most = options_.data_validation ? std::max(layout_.slots, granule_) : 0;
    Rounds(talk_, options_, granule_, most).Run([this](uint32_t count, bool counts) {
      Round(count, counts);
    });
    BandwidthFigures figures = AverageOf(layout_.bytes, messages_, ns_);
    figures.peak = peak_;
    return figures;
  }

 private:
  bool Sends() const { return options_.posts(); }
  bool Takes() const { return !options_.is_client() || options_.bidirectional; }
  /// Whose memory messages are taken from, and whose they come to.
  bool Supplies() const { return options_.verb == Verb::kRead ? Takes() : Sends(); }
  bool Gets() const { return options_.verb == Verb::kRead ? Sends() : Takes(); }
  bool Receives() const { return options_.verb == Verb::kSend && Takes(); }

  /// Messages whose times are kept.
  size_t Stamps() const {
    const bool few = options_.iterations != 0 && options_.iterations <= kMostStamps;
    if (!few || options_.no_peak || !options_.posting.alone()) return 0;
    return size_t{options_.qps} * options_.iterations;
  }

  size_t StageBytes() const {
    return Stage::Bytes<Flow>(options_.qps) + Stage::Bytes<ReceiveFlow>(options_.qps) +
           Stage::Bytes<Span>(size_t{options_.qps} * options_.posting.posters) + 2 * Stage::Bytes<Report>(1) +
           2 * Stage::Bytes<uint64_t>(Stamps());
  }

  void Round(uint32_t count, bool counts) {
    Prepare();
    talk_.Swap({{"ready", count}}, "the word that it is ready");
    std::fill_n(spans_, options_.qps * options_.posting.posters, Span{});
    *sent_ = *received_ = {};
    const auto part = [&] {
      Run(count);
      if (Sends()) party_.Check(*sent_);
      if (Receives()) party_.Check(*received_);
    };
    talk_.DoTogether(part, [this] {
      for (Report* const report : {sent_, received_}) Party::Stop(*report);
    });
    Validate(count);
    if (Receives()) party_.HasReceived(count);
    ++round_;
    if (counts && Sends()) Count(count);
  }

  void Prepare() {
    if (!options_.data_validation) return;
    if (options_.is_atomic()) {
      if (Takes()) ClearTargets(party_, layout_);
      return;
    }
    if (Supplies()) FillSources(party_, layout_, round_);
    if (Gets()) ClearTargets(party_, layout_);
  }

  void Validate(uint32_t count) const {
    if (!options_.data_validation) return;
    if (options_.is_atomic()) {
      if (Takes()) CheckCounts(party_, layout_, count);
    } else if (Gets()) {
      CheckTargets(party_, layout_, round_, count, Receives() ? party_.NextPlace(layout_) : 0);
    }
  }

  /// Sends, receives, or both at a time.
  void Run(uint32_t count) {
    if (!Receives()) {
      if (Sends()) Send(count);
      return;
    }
    if (!Sends()) return Receive(count);
    std::exception_ptr failure;
    {
      const std::jthread receiver = StartThread("that receives", [&]() noexcept {
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
    party_.initiator().Stream({.flows = flows_,
                               .flow_count = party_.flows(),
                               .count = count,
                               .batch = options_.posting.batch,
                               .cq_mod = options_.CqModFor(layout_.bytes),
                               .tx_depth = options_.tx_depth,
                               .posters = options_.posting.posters,
                               .patience_ns = PatienceNs(),
                               .posted_ns = stamps ? posted_ : nullptr,
                               .completed_ns = stamps ? completed_ : nullptr,
                               .spans = spans_,
                               .report = sent_},
                              options_.verb, options_.posting);
  }

  void Receive(uint32_t count) {
    party_.initiator().Receive({.flows = receives_,
                                .flow_count = party_.flows(),
                                .count = count,
                                .patience_ns = PatienceNs(),
                                .report = received_});
  }

  uint64_t PatienceNs() const {
    return static_cast<uint64_t>(std::chrono::nanoseconds(options_.patience).count());
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

  Party& party_;
  Talk& talk_;
  const Options& options_;
  Layout layout_;
  uint32_t granule_;
  Stage stage_;
  Flow* flows_ = nullptr;
  ReceiveFlow* receives_ = nullptr;
  Span* spans_ = nullptr;
  Report* sent_ = nullptr;
  Report* received_ = nullptr;
  uint64_t* posted_ = nullptr;
  uint64_t* completed_ = nullptr;
  uint64_t round_ = 0;
  uint64_t messages_ = 0, ns_ = 0;
  double peak_ = 0;
};

}  // namespace

BandwidthFigures MeasureBandwidth(Party& party, Talk& talk, const Options& options, uint64_t bytes) {
  const BandwidthFigures mine = Streams(party, talk, options, bytes).Measure();
  const BandwidthFigures theirs = BandwidthFrom(talk.Swap(ToJson(mine), "its figures"));
  if (!options.bidirectional) return options.is_client() ? mine : theirs;
  BandwidthFigures sum = options.is_client() ? mine : theirs;  // the same on both sides
  sum.average = mine.average + theirs.average;
  sum.peak = mine.peak + theirs.peak;
  sum.rate = mine.rate + theirs.rate;
  return sum;
}

}  // namespace warpverbs::perf
