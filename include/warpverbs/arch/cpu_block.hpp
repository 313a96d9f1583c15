#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "warpverbs/arch/cpu_place.hpp"
#include "warpverbs/arch/cpu_warp.hpp"

/// Blocks and warps of CPU threads, for tests of kernels that cooperate.
namespace warpverbs::inline v0_2::arch::cpu {

/// The threads of a block; each `warp_lanes` of them form a warp.
class Block {
 public:
  Block(uint32_t threads, uint32_t warp_lanes)
      : threads_(threads), warp_lanes_(warp_lanes), barrier_(threads, Decide{this}) {
    for (uint32_t first = 0; first < threads; first += warp_lanes)
      warps_.emplace_back(std::min(warp_lanes, threads - first));
  }

  /// Runs a kernel as thread `thread` of the block, on the calling thread.
  void Run(uint32_t thread, const std::function<void(uint32_t thread)>& kernel) {
    Warp& warp = warps_[thread / warp_lanes_];
    LanePlace here(*this, warp, thread);
    place = &here;
    try {
      kernel(thread);
    } catch (...) {
      std::call_once(failed_, [this] { failure_ = std::current_exception(); });
    }
    place = &alone;
    warp.End(here.lane());
    barrier_.arrive_and_drop();
  }

  /// The first exception that left a kernel; null if none has.
  std::exception_ptr failure() const { return failure_; }

 private:
  class LanePlace final : public Place {
   public:
    LanePlace(Block& block, Warp& warp, uint32_t thread) : block_(block), warp_(warp), thread_(thread) {}

    uint32_t lane() const override { return thread_ % block_.warp_lanes_; }
    LaneMask warp_lanes() const override { return warp_.lanes(); }
    uint32_t block_threads() const override { return block_.threads_; }
    uint32_t block_rank() const override { return thread_; }
    LaneValues AllGather(LaneMask mask, uint64_t value) override {
      return warp_.AllGather(lane(), mask, value);
    }
    void SyncBlock() override {
      has_shared_ = false;
      block_.barrier_.arrive_and_wait();
    }
    bool AllOfBlock(bool mine) override {
      if (!mine) block_.vetoed_.store(true, std::memory_order_relaxed);
      SyncBlock();
      return block_.agreed_;
    }
    uint64_t ShareInBlock(uint64_t value, bool brings) override {
      Require(!has_shared_, "a block shares two values, and no barrier is between them");
      if (brings) block_.brought_ = value;
      SyncBlock();
      has_shared_ = true;
      if (!block_.shared_) throw std::logic_error("a block waits for the value of a thread that has ended");
      return *block_.shared_;
    }

   private:
    Block& block_;
    Warp& warp_;
    const uint32_t thread_;
    bool has_shared_ = false;  // since the last barrier: on a GPU other threads may still have to read it
  };

  /// Runs when all threads have arrived at the barrier: sets what they read when they leave it.
  struct Decide {
    void operator()() noexcept {
      block->agreed_ = !block->vetoed_.exchange(false, std::memory_order_relaxed);
      block->shared_ = std::exchange(block->brought_, std::nullopt);
    }
    Block* block;
  };

  const uint32_t threads_;
  const uint32_t warp_lanes_;
  std::deque<Warp> warps_;
  std::atomic<bool> vetoed_ = false;
  bool agreed_ = true;
  std::optional<uint64_t> brought_, shared_;
  std::barrier<Decide> barrier_;
  std::once_flag failed_;
  std::exception_ptr failure_;
};

/// Runs a kernel as a block, each thread on a thread of the system, and waits for all of them.
///
/// Lanes run independently, as on a GPU without lockstep. A lane that ends while others wait for it is an
/// error of the kernel, as on a GPU, and so is a thread that ends while its block waits for its value. The
/// others then throw, so that nothing hangs.
///
/// @param kernel      gets the thread's index in the block
/// @param warp_lanes  1 to 64; the last warp may be shorter
/// @pre     each lane's masks contain the lane itself, and only lanes of its warp; otherwise this aborts
/// @errors  the first exception that left a kernel; std::runtime_error: the system has no thread left
inline void RunBlock(uint32_t threads, const std::function<void(uint32_t thread)>& kernel,
                     uint32_t warp_lanes = 32) {
  Block block(threads, warp_lanes);
  {
    std::vector<std::jthread> running;
    running.reserve(threads);
    const auto cannot_start = [threads](uint32_t thread) {
      throw std::runtime_error("Cannot start thread " + std::to_string(thread) + " of a block of " +
                               std::to_string(threads) +
                               ": the system has none left. Raise the limits on threads and memory "
                               "(ulimit -u, ulimit -v).");
    };
    for (uint32_t thread = 0; thread < threads; ++thread) {
      try {
        running.emplace_back([&block, &kernel, thread] { block.Run(thread, kernel); });
      } catch (const std::exception&) {
        block.Run(thread, cannot_start);  // else the others would wait for it
      }
    }
  }
  if (block.failure() != nullptr) std::rethrow_exception(block.failure());
}

/// Runs a kernel as several concurrent blocks; see RunBlock().
inline void RunGrid(uint32_t blocks, uint32_t threads,
                    const std::function<void(uint32_t block, uint32_t thread)>& kernel,
                    uint32_t warp_lanes = 32) {
  RunBlock(blocks, [&](uint32_t block) {
    RunBlock(
        threads, [&](uint32_t thread) { kernel(block, thread); }, warp_lanes);
  });
}

}  // namespace warpverbs::inline v0_2::arch::cpu
