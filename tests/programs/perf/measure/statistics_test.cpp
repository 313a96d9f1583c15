#include "perf/measure/statistics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace warpverbs::perf {
namespace {

/// Computes the peak from every pair, as perftest defines it.
double PeakByBruteForce(uint64_t bytes, const std::vector<uint64_t>& posted,
                        const std::vector<uint64_t>& completed) {
  double best = 0;
  for (size_t i = 0; i < posted.size(); ++i) {
    for (size_t j = i; j < posted.size(); ++j)
      best = std::max(best, static_cast<double>(j - i + 1) / static_cast<double>(completed[j] - posted[i]));
  }
  return best * static_cast<double>(bytes) * 1e9;
}

TEST(Statistics, AveragesFromFirstPostToLastCompletion) {
  const BandwidthFigures figures = AverageOf(65536, 1000, 2'000'000);
  EXPECT_EQ(figures.bytes, 65536u);
  EXPECT_EQ(figures.messages, 1000u);
  EXPECT_DOUBLE_EQ(figures.average, 65536.0 * 1000 / 2e-3);
  EXPECT_DOUBLE_EQ(figures.rate, 1000 / 2e-3);
}

TEST(Statistics, FindsTheFastestRunOfMessages) {
  // The second and third message are twice as fast as all four together.
  const std::vector<uint64_t> posted{0, 100, 110, 120}, completed{100, 200, 220, 400};
  EXPECT_DOUBLE_EQ(PeakOf(1, posted, completed), 2.0 / 120 * 1e9);
}

TEST(Statistics, FindsThePeakOfOneMessage) {
  EXPECT_DOUBLE_EQ(PeakOf(8, std::vector<uint64_t>{50}, std::vector<uint64_t>{150}), 8 / 100e-9);
}

TEST(Statistics, FindsThePeakThatBruteForceFinds) {
  std::mt19937_64 dice(7);
  for (int run = 0; run < 200; ++run) {
    std::vector<uint64_t> posted, completed;
    uint64_t now = 1'000'000'000'000;
    const auto count = 1 + dice() % 60;
    for (uint64_t i = 0; i < count; ++i) {
      posted.push_back(now += dice() % 500);
      completed.push_back(now + 1 + dice() % 2000);
    }
    std::sort(completed.begin(), completed.end());
    const double expected = PeakByBruteForce(64, posted, completed);
    EXPECT_NEAR(PeakOf(64, posted, completed), expected, expected * 1e-6) << "run " << run;
  }
}

TEST(Statistics, FindsNoPeakBelowTheAverage) {
  std::mt19937_64 dice(11);
  std::vector<uint64_t> posted, completed;
  for (uint64_t i = 0; i < 1000; ++i) {
    posted.push_back(i * 100);
    completed.push_back(i * 100 + 150 + dice() % 40);
  }
  std::sort(completed.begin(), completed.end());
  EXPECT_GE(PeakOf(8, posted, completed), AverageOf(8, 1000, completed.back() - posted.front()).average);
}

TEST(Statistics, TakesQuantilesByNearestRank) {
  std::vector<double> sorted;
  for (int i = 1; i <= 1000; ++i) sorted.push_back(i);
  EXPECT_EQ(Quantile(sorted, 0.5), 500);
  EXPECT_EQ(Quantile(sorted, 0.99), 990);
  EXPECT_EQ(Quantile(sorted, 0.999), 999);
  EXPECT_EQ(Quantile(sorted, 1), 1000);
  EXPECT_EQ(Quantile(std::vector<double>{7}, 0.999), 7);
}

TEST(Statistics, HalvesRoundTripsInMicroseconds) {
  const LatencyFigures figures = LatencyOf(2, std::vector<uint64_t>{4000, 2000, 8000, 2000}, 2);
  EXPECT_EQ(figures.messages, 4u);
  EXPECT_DOUBLE_EQ(figures.min, 1);
  EXPECT_DOUBLE_EQ(figures.max, 4);
  EXPECT_DOUBLE_EQ(figures.typical, 1);
  EXPECT_DOUBLE_EQ(figures.average, 2);
  EXPECT_NEAR(figures.deviation, 1.224745, 1e-6);
  EXPECT_DOUBLE_EQ(figures.p99, 4);
}

TEST(Statistics, ReturnsZerosWithoutSamples) {
  EXPECT_EQ(LatencyOf(2, {}, 1).messages, 0u);
  EXPECT_EQ(PeakOf(2, {}, {}), 0);
}

}  // namespace
}  // namespace warpverbs::perf
