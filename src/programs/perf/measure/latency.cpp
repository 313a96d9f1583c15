#include "perf/measure/latency.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include "perf/initiator/stage.hpp"
#include "perf/measure/rounds.hpp"
#include "perf/talk/report_words.hpp"

namespace warpverbs::perf {
namespace {

constexpr uint32_t kMostSamples = 1 << 20;  // of a round, and of those that are kept

/// One size.
class Messages {
 public:
  Messages(const Party& party, Talk& talk, const Options& options, uint64_t bytes)
      : party_(party),
        talk_(talk),
        options_(options),
        layout_(party.LayoutFor(bytes)),
        most_(options.iterations != 0 ? std::min(options.iterations, kMostSamples) : kMostSamples),
        stage_(party.initiator(), Stage::Bytes<uint64_t>(most_ + 1) + Stage::Bytes<Report>(1)) {
    stamps_ = stage_.Take<uint64_t>(most_ + 1);
    report_ = stage_.Take<Report>(1);
  }

  LatencyFigures Measure() {
    Rounds(talk_, options_, 1, most_, most_).Run([this](uint32_t count, bool counts) {
      Round(count, counts);
    });
    LatencyFigures figures = LatencyOf(layout_.bytes, samples_ns_, options_.is_answered() ? 2 : 1);
    if (messages_ > samples_ns_.size())  // beyond what was kept there is the average
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
      party_.memory().CopyIn(0, FlowMemory::Part::kTarget, EndOfMessage() - 1, std::span(&before, 1));
    }
    talk_.Swap({{"ready", count}}, "the word that it is ready");
    *report_ = {};
    const auto part = [&] {
      if (options_.is_answered()) {
        party_.initiator().PingPong(job, options_.verb);
      } else if (options_.is_client()) {
        party_.initiator().PostToCompletion(job, options_.verb);
      }
      party_.Check(*report_);
    };
    talk_.DoTogether(part, [this] { Party::Stop(*report_); });
    mark_ = static_cast<uint8_t>(mark_ + count);
    if (!counts || !options_.is_client()) return;
    messages_ += count;
    ns_ += stamps_[count] - stamps_[0];
    for (uint32_t i = 0; i < count && samples_ns_.size() < kMostSamples; ++i)
      samples_ns_.push_back(stamps_[i + 1] - stamps_[i]);
  }

  /// Where the message's last byte is, from the start of the target.
  uint64_t EndOfMessage() const {
    const host::MemoryView target = party_.memory().ViewOf(0, FlowMemory::Part::kTarget);
    return LandingOf(target).addr + layout_.bytes - target.addr;
  }

  /// The peer's messages come to where this side's go to at the peer.
  device::LocalMemory LandingOf(const host::MemoryView& target) const {
    const host::MemoryView source = party_.memory().ViewOf(0, FlowMemory::Part::kSource);
    const uint64_t pad = party_.FlowOf(0, layout_).local.addr - source.addr;
    return {target.addr + pad, layout_.bytes, mlx5::ToBe32(target.lkey)};
  }

  LatencyJob JobOf(uint32_t count) const {
    LatencyJob job{.flow = party_.FlowOf(0, layout_),
                   .receives = {},
                   .landing = {},
                   .count = count,
                   .inline_bytes = options_.inline_bytes,
                   .answers = !options_.is_client(),
                   .first_mark = static_cast<uint8_t>(mark_ + 1),
                   .patience_ns = static_cast<uint64_t>(std::chrono::nanoseconds(options_.patience).count()),
                   .stamps_ns = stamps_,
                   .report = report_};
    if (!options_.is_answered()) return job;
    job.landing = LandingOf(party_.memory().ViewOf(0, FlowMemory::Part::kTarget));
    if (options_.verb != Verb::kSend) return job;
    const ReceiveFlow receives = party_.ReceivesOf(0);
    job.receives = receives.queue;
    job.landing = receives.local;
    return job;
  }

  const Party& party_;
  Talk& talk_;
  const Options& options_;
  Layout layout_;
  uint32_t most_;
  Stage stage_;
  uint64_t* stamps_ = nullptr;
  Report* report_ = nullptr;
  uint8_t mark_ = 0;
  uint64_t messages_ = 0, ns_ = 0;
  std::vector<uint64_t> samples_ns_;
};

}  // namespace

LatencyFigures MeasureLatency(const Party& party, Talk& talk, const Options& options, uint64_t bytes) {
  const LatencyFigures mine = Messages(party, talk, options, bytes).Measure();
  const LatencyFigures theirs = LatencyFrom(talk.Swap(ToJson(mine), "its figures"));
  return options.is_client() ? mine : theirs;
}

}  // namespace warpverbs::perf
