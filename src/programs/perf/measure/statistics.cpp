#include "perf/measure/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace warpverbs::perf {

BandwidthFigures AverageOf(uint64_t bytes, uint64_t messages, uint64_t ns) {
  BandwidthFigures figures{.bytes = bytes, .messages = messages};
  const double seconds = static_cast<double>(std::max<uint64_t>(ns, 1)) / 1e9;
  figures.rate = static_cast<double>(messages) / seconds;
  figures.average = figures.rate * static_cast<double>(bytes);
  return figures;
}

double PeakOf(uint64_t bytes, std::span<const uint64_t> posted, std::span<const uint64_t> completed) {
  // Dinkelbach's algorithm: while some run (i, j) is faster than the rate found so far, (j - i + 1) - rate *
  // time is positive, and largest for the best candidate. Each iteration is one pass; few are needed.
  double rate = 0;  // messages a ns
  for (bool better = true; better;) {
    better = false;
    double best_excess = 1e-9, best_start = -1e300, found = rate;
    size_t start = 0;
    for (size_t j = 0; j < posted.size(); ++j) {
      const double from = rate * static_cast<double>(posted[j] - posted[0]) - static_cast<double>(j);
      if (from > best_start) {
        best_start = from;
        start = j;
      }
      const double to = static_cast<double>(j + 1) - rate * static_cast<double>(completed[j] - posted[0]);
      if (best_start + to <= best_excess) continue;
      best_excess = best_start + to;
      const double ns = static_cast<double>(std::max<uint64_t>(completed[j] - posted[start], 1));
      found = static_cast<double>(j - start + 1) / ns;
    }
    better = found > rate * (1 + 1e-12);
    if (better) rate = found;
  }
  return rate * static_cast<double>(bytes) * 1e9;
}

double Quantile(std::span<const double> sorted, double share) {
  const double rank = std::ceil(share * static_cast<double>(sorted.size()));
  return sorted[std::min(sorted.size() - 1, static_cast<size_t>(std::max(rank, 1.0)) - 1)];
}

LatencyFigures LatencyOf(uint64_t bytes, std::span<const uint64_t> ns, uint32_t ways) {
  LatencyFigures figures{.bytes = bytes};
  if (ns.empty()) return figures;
  std::vector<double> us;
  us.reserve(ns.size());
  for (const uint64_t sample : ns) us.push_back(static_cast<double>(sample) / 1e3 / ways);
  std::sort(us.begin(), us.end());
  const auto count = static_cast<double>(us.size());
  double sum = 0, squares = 0;
  for (const double sample : us) sum += sample;
  figures.messages = us.size();
  figures.average = sum / count;
  for (const double sample : us) squares += (sample - figures.average) * (sample - figures.average);
  figures.deviation = std::sqrt(squares / count);
  figures.min = us.front();
  figures.max = us.back();
  figures.typical = Quantile(us, 0.5);
  figures.p99 = Quantile(us, 0.99);
  figures.p999 = Quantile(us, 0.999);
  return figures;
}

}  // namespace warpverbs::perf
