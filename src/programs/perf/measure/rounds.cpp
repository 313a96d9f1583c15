#include "perf/measure/rounds.hpp"

#include <algorithm>
#include <stdexcept>

namespace warpverbs::perf {
namespace {

constexpr char kWhat[] = "the length of the next round";

}  // namespace

double RoundSeconds(double duration_s) { return std::min(duration_s / 20, 60.0); }

uint32_t Rounds::RoundUp(uint64_t count) const {
  const uint32_t max = max_ != 0 ? max_ : kMaxRoundMessages;
  count = std::min<uint64_t>(count, std::max(max / multiple_ * multiple_, multiple_));
  return static_cast<uint32_t>((count + multiple_ - 1) / multiple_ * multiple_);
}

void Rounds::Announce(uint32_t count, bool counts) {
  control_.Swap({{"count", count}, {"counts", counts}}, kWhat);
}

void Rounds::Run(const std::function<void(uint32_t, bool)>& round) {
  if (options_.is_client()) {
    if (options_.warm_up) RunWarmUp(round);
    options_.iterations != 0 ? RunIterations(round) : RunDuration(round);
    return Announce(0, false);
  }
  while (true) {
    const Json next = control_.Swap(Json::object(), kWhat);
    const auto count = Get<uint64_t>(next, "count");
    if (count == 0) return;
    if (count > room_ || count % multiple_ != 0)
      throw std::runtime_error("The peer asks for an invalid round of " + std::to_string(count) +
                               " messages. Run the same version of warpverbs-perf on both sides.");
    round(static_cast<uint32_t>(count), Get<bool>(next, "counts"));
  }
}

void Rounds::RunWarmUp(const std::function<void(uint32_t, bool)>& round) {
  const uint32_t count = std::max(options_.tx_depth / multiple_, 1u) * multiple_;
  Announce(count, false);
  round(count, false);
}

void Rounds::RunIterations(const std::function<void(uint32_t, bool)>& round) {
  for (uint64_t left = options_.iterations; left != 0;) {
    const uint32_t count = RoundUp(left);
    Announce(count, true);
    round(count, true);
    left -= std::min<uint64_t>(left, count);
  }
}

void Rounds::RunDuration(const std::function<void(uint32_t, bool)>& round) {
  using Seconds = std::chrono::duration<double>;
  // The queues drain between rounds. The figures include the start of each round, so rounds must be long.
  const double target_s = RoundSeconds(options_.duration_s);
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return Seconds(Clock::now() - start).count(); };
  double count = 4.0 * options_.tx_depth, used = 0;
  bool any_counted = false;
  for (double now = 0; now < options_.duration_s || !any_counted; now = elapsed()) {
    const bool late = now >= options_.duration_s;  // rounds are slow: none has counted so far
    const bool counts =
        late || (now >= options_.margin_s && now + used <= options_.duration_s - options_.margin_s);
    const uint32_t next = RoundUp(static_cast<uint64_t>(count));
    Announce(next, counts);
    round(next, counts);
    any_counted |= counts;
    used = elapsed() - now;
    count = std::clamp(next * target_s / std::max(used, 1e-6), 0.5 * next, 8.0 * next);
  }
}

}  // namespace warpverbs::perf
