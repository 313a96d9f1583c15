#pragma once

#include <cstdint>
#include <string>

#include "pair.hpp"
#include "warpverbs/device/atomics.hpp"

namespace warpverbs::e2e {

inline constexpr size_t kTrafficWords = 8;  ///< words of each poster, at both sides

/// Posts writes, reads and atomics of one poster, alone and in batches, and checks their effects.
///
/// @param first  first of the poster's words
/// @param value  last value of the previous run on the same words; 0 for the first run
/// @pre     the queue has at least 4 slots
/// @return  the first error, or an empty string
template <class Sharing>
std::string RunTraffic(Pair& pair, size_t first, uint32_t rounds, uint64_t value = 0) {
  Queue<Sharing> queue(pair.a.View());
  const auto remote = [&](size_t word) { return pair.Remote(8 * (first + word)); };
  const auto local = [&](size_t word) { return pair.Local(8 * (first + word), 8); };
  for (const uint64_t end = value + rounds; value < end; ++value) {
    const std::string where = " in round " + std::to_string(value);
    pair.Source(first) = value + 1;
    auto batch = queue.Begin(4, Within());
    EXPECT_TRUE(batch.Add(device::Write(remote(0), local(0)), mlx5::kCqeOnError).status.ok());
    EXPECT_TRUE(batch.Add(device::WriteInline{remote(1), ~value}, mlx5::kCqeOnError).status.ok());
    EXPECT_TRUE(batch.Add(device::FetchAdd<uint64_t>(remote(2), 3, local(2))).status.ok());
    EXPECT_TRUE(batch.Add(device::Read(remote(0), local(3))).status.ok());
    if (!batch.Submit().status.ok()) return "the batch is not posted" + where;
    const device::Posted swap = queue.Post(device::Swap<uint64_t>(remote(4), value + 1, local(4)), Within());
    if (!swap.status.ok()) return "the swap is not posted" + where;
    if (!queue.Wait(swap.ticket, Within()).ok()) return "the swap is not complete" + where;
    if (pair.Target(first) != value + 1) return "the write is not there" + where;
    if (pair.Target(first + 1) != ~value) return "the inline write is not there" + where;
    if (pair.Target(first + 2) != 3 * (value + 1)) return "the sum is wrong" + where;
    if (pair.Source(first + 2) != 3 * value) return "the fetched sum is wrong" + where;
    if (pair.Source(first + 3) != value + 1) return "the read has other data" + where;
    if (pair.Target(first + 4) != value + 1 || pair.Source(first + 4) != value) {
      return "the swap is wrong" + where;
    }
  }
  return "";
}

}  // namespace warpverbs::e2e
