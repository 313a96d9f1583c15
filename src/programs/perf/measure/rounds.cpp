#include "perf/measure/rounds.hpp"

#include <algorithm>
#include <stdexcept>

namespace warpverbs::perf {
namespace {

constexpr char kWhat[] = "how many messages come next";

}  // namespace

double SecondsOfARound(double duration_s) { return std::min(duration_s / 20, 60.0); }

uint32_t Rounds::Whole(uint64_t count) const {
  const uint32_t most = most_ != 0 ? most_ : kMostOfARound;
  count = std::min<uint64_t>(count, std::max(most / granule_ * granule_, granule_));
  return static_cast<uint32_t>((count + granule_ - 1) / granule_ * granule_);
}

void Rounds::Announce(uint32_t count, bool counts) {
  talk_.Swap({{"count", count}, {"counts", counts}}, kWhat);
}

void Rounds::Run(const std::function<void(uint32_t, bool)>& round) {
  if (options_.is_client()) {
    if (options_.warm_up) RunWarmUp(round);
    options_.iterations != 0 ? RunIterations(round) : RunDuration(round);
    return Announce(0, false);
  }
  while (true) {
    const Json next = talk_.Swap(Json::object(), kWhat);
    const auto count = Get<uint64_t>(next, "count");
    if (count == 0) return;
    if (count > room_ || count % granule_ != 0)
      throw std::runtime_error("The other side asks for " + std::to_string(count) +
                               " messages, which do not go.");
    round(static_cast<uint32_t>(count), Get<bool>(next, "counts"));
  }
}

void Rounds::RunWarmUp(const std::function<void(uint32_t, bool)>& round) {
  const uint32_t count = std::max(options_.tx_depth / granule_, 1u) * granule_;
  Announce(count, false);
  round(count, false);
}

void Rounds::RunIterations(const std::function<void(uint32_t, bool)>& round) {
  for (uint64_t left = options_.iterations; left != 0;) {
    const uint32_t count = Whole(left);
    Announce(count, true);
    round(count, true);
    left -= std::min<uint64_t>(left, count);
  }
}

void Rounds::RunDuration(const std::function<void(uint32_t, bool)>& round) {
  using Seconds = std::chrono::duration<double>;
  // Between two rounds the queues run dry: that is out of the figures, but the first messages of a round are
  // not.
  const double wanted = SecondsOfARound(options_.duration_s);
  const Clock::time_point start = Clock::now();
  const auto elapsed = [&] { return Seconds(Clock::now() - start).count(); };
  double count = 4.0 * options_.tx_depth, used = 0;
  bool any = false;
  for (double now = 0; now < options_.duration_s || !any; now = elapsed()) {
    const bool late = now >= options_.duration_s;  // and nothing counts so far: rounds are slow
    const bool counts =
        late || (now >= options_.margin_s && now + used <= options_.duration_s - options_.margin_s);
    const uint32_t next = Whole(static_cast<uint64_t>(count));
    Announce(next, counts);
    round(next, counts);
    any |= counts;
    used = elapsed() - now;
    count = std::clamp(next * wanted / std::max(used, 1e-6), 0.5 * next, 8.0 * next);
  }
}

}  // namespace warpverbs::perf
