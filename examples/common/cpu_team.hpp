// Threads of a CPU in the place of a GPU's block of threads.
#pragma once

#include <barrier>
#include <cstdint>
#include <thread>
#include <vector>

/// What one of the threads knows.
class CpuTeam {
 public:
  uint32_t Rank() const { return rank_; }
  uint32_t Size() const { return size_; }
  void Sync() const { barrier_.arrive_and_wait(); }

  /// Calls `kernel(team)` on `size` threads and waits until all have returned.
  template <class Kernel>
  static void Run(uint32_t size, const Kernel& kernel) {
    std::barrier<> barrier(size);
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < size; ++rank) {
      threads.emplace_back([&kernel, team = CpuTeam(rank, size, barrier)] { kernel(team); });
    }
  }

 private:
  CpuTeam(uint32_t rank, uint32_t size, std::barrier<>& barrier)
      : rank_(rank), size_(size), barrier_(barrier) {}

  uint32_t rank_;
  uint32_t size_;
  std::barrier<>& barrier_;
};
