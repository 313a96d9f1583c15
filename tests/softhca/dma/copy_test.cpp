#include "dma/copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

namespace softhca {
namespace {

std::vector<uint8_t> Counting(size_t bytes) {
  std::vector<uint8_t> memory(bytes);
  std::iota(memory.begin(), memory.end(), uint8_t{1});
  return memory;
}

TEST(Copy, JoinsAndSplitsPieces) {
  std::vector<uint8_t> source = Counting(32), target(32);
  const std::vector<Bytes> from = {Bytes(source).subspan(0, 5), Bytes(source).subspan(5, 1),
                                   Bytes(source).subspan(6, 26)};
  const std::vector<Bytes> to = {Bytes(target).subspan(0, 16), Bytes(target).subspan(16, 16)};
  EXPECT_TRUE(Copy(to, from));
  EXPECT_EQ(target, source);
}

TEST(Copy, StopsAtTheEndOfTheShorterList) {
  std::vector<uint8_t> source = Counting(16), target(16);
  const std::vector<Bytes> from = {Bytes(source).subspan(0, 4)}, to = {Bytes(target)};
  EXPECT_TRUE(Copy(to, from));
  EXPECT_EQ(target[3], 4);
  EXPECT_EQ(target[4], 0);
  const std::vector<Bytes> little = {Bytes(target).subspan(8, 2)}, all = {Bytes(source)};
  EXPECT_TRUE(Copy(little, all));
  EXPECT_EQ(target[9], 2);
  EXPECT_EQ(target[10], 0);
}

TEST(Copy, WritesTheLastByteLast) {
  constexpr int kRounds = 3000;
  constexpr size_t kBytes = 203;
  std::vector<uint8_t> source(kBytes), target(kBytes);
  std::atomic<int> seen{0};
  const std::jthread reader([&](const std::stop_token& stop) {
    std::atomic_ref last(target.back());
    for (int round = 1; round <= kRounds; ++round) {
      while (last.load(std::memory_order_acquire) != static_cast<uint8_t>(round)) {
        if (stop.stop_requested()) return;
      }
      const auto stale = std::count_if(target.begin(), target.end(),
                                       [&](uint8_t byte) { return byte != static_cast<uint8_t>(round); });
      EXPECT_EQ(stale, 0) << "in round " << round;
      seen = round;
    }
  });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int round = 1; round <= kRounds; ++round) {
    std::fill(source.begin(), source.end(), static_cast<uint8_t>(round));
    const Bytes from(source), to(target);
    EXPECT_TRUE(Copy(std::span(&to, 1), std::span(&from, 1)));
    while (seen != round) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
}

TEST(Copy, SkipsEmptyPieces) {
  std::vector<uint8_t> source = Counting(4), target(4);
  const std::vector<Bytes> from = {Bytes(), Bytes(source).subspan(0, 2), Bytes(),
                                   Bytes(source).subspan(2, 2)};
  const std::vector<Bytes> to = {Bytes(), Bytes(target)};
  EXPECT_TRUE(Copy(to, from));
  EXPECT_EQ(target, source);
  EXPECT_TRUE(Copy({}, from));
  EXPECT_TRUE(Copy(to, {}));
}

TEST(Copy, CopiesOverlappingRanges) {
  std::vector<uint8_t> memory = Counting(100);
  const std::vector<Bytes> from = {Bytes(memory).subspan(0, 90)}, to = {Bytes(memory).subspan(10, 90)};
  EXPECT_TRUE(Copy(to, from));
  const std::vector<uint8_t> original = Counting(90);
  EXPECT_TRUE(std::equal(original.begin(), original.end(), memory.begin() + 10));
}

TEST(Copy, CopiesWordsOfAnyAlignment) {
  std::vector<uint8_t> source = Counting(64);
  for (const size_t bytes : {1, 2, 4, 8}) {
    for (size_t offset = 0; offset < 8; ++offset) {
      std::vector<uint8_t> target(24);
      const std::vector<Bytes> from = {Bytes(source).subspan(offset, bytes)};
      const std::vector<Bytes> to = {Bytes(target).subspan(7 - offset, bytes)};
      EXPECT_TRUE(Copy(to, from));
      EXPECT_TRUE(std::equal(from[0].begin(), from[0].end(), to[0].begin())) << bytes << " at " << offset;
    }
  }
}

TEST(CopyPart, PlacesEachPartAcrossPieces) {
  const std::vector<uint8_t> source = Counting(100);
  for (const size_t bytes : {1, 7, 33, 100}) {
    std::vector<uint8_t> target(100);
    const Bytes whole(target);
    const std::vector<Bytes> to = {whole.first(10), Bytes(), whole.subspan(10, 1), whole.subspan(11)};
    for (size_t offset = 0; offset < source.size(); offset += bytes) {
      const std::span<const uint8_t> rest = std::span(source).subspan(offset);
      EXPECT_TRUE(CopyPart(to, offset, rest.first(std::min(bytes, rest.size()))));
    }
    EXPECT_EQ(target, source) << bytes;
  }
}

TEST(CopyPart, DropsBytesPastTheEnd) {
  const std::vector<uint8_t> source = Counting(10);
  std::vector<uint8_t> target(20);
  const std::vector<Bytes> to = {Bytes(target).first(4), Bytes(target).subspan(4, 4)};
  EXPECT_TRUE(CopyPart(to, 3, source));
  EXPECT_TRUE(std::equal(target.begin() + 3, target.begin() + 8, source.begin()));
  EXPECT_TRUE(std::all_of(target.begin() + 8, target.end(), [](uint8_t byte) { return byte == 0; }));
  EXPECT_TRUE(CopyPart(to, 8, source));
  EXPECT_TRUE(CopyPart({}, 0, source));
}

}  // namespace
}  // namespace softhca
