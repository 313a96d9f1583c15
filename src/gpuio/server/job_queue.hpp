#pragma once

#include <asio/io_context.hpp>
#include <asio/thread_pool.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A call that may block, and what follows it on the loop.
struct Job {
  std::function<void()> call{}, then{};
};

/// Runs calls that may block in threads. Clients take turns: whatever one has queued, another's next call
/// waits for one thread only. A client gets half of the threads at most, because calls on a slow file take
/// long.
///
/// All calls are on the loop's thread.
class JobQueue {
 public:
  /// The jobs of a client. Jobs own it.
  class Share {
   public:
    /// Forgets what waits, which runs neither its call nor what follows.
    void Clear() { waiting_.clear(); }

   private:
    friend class JobQueue;
    std::deque<Job> waiting_;
    size_t running_ = 0;
    bool in_turn_ = false;
  };

  /// @param threads  `count` threads, which must outlive this
  JobQueue(asio::io_context& loop, asio::thread_pool& threads, size_t count)
      : loop_(loop), threads_(threads), count_(count) {}
  JobQueue(const JobQueue&) = delete;
  JobQueue& operator=(const JobQueue&) = delete;

  /// @param job  owns what owns this
  void Add(const std::shared_ptr<Share>& share, Job job);

 private:
  void TakeTurn(const std::shared_ptr<Share>& share);
  void Start();
  void Run(const std::shared_ptr<Share>& share, Job job);

  asio::io_context& loop_;
  asio::thread_pool& threads_;
  const size_t count_;
  size_t running_ = 0;
  std::deque<std::shared_ptr<Share>> turns_;
};

}  // namespace warpverbs::inline v0_2::gpuio
