#include "gpuio/server/job_queue.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

namespace warpverbs::inline v0_2::gpuio {

void JobQueue::Add(const std::shared_ptr<Share>& share, Job job) {
  share->waiting_.push_back(std::move(job));
  TakeTurn(share);
  Start();
}

void JobQueue::TakeTurn(const std::shared_ptr<Share>& share) {
  const bool may_run = share->running_ < std::max<size_t>(count_ / 2, 1);
  if (!may_run || share->waiting_.empty() || std::exchange(share->in_turn_, true)) return;
  turns_.push_back(share);
}

void JobQueue::Start() {
  while (running_ < count_ && !turns_.empty()) {
    const std::shared_ptr<Share> share = std::move(turns_.front());
    turns_.pop_front();
    share->in_turn_ = false;
    if (share->waiting_.empty()) continue;
    Job job = std::move(share->waiting_.front());
    share->waiting_.pop_front();
    ++running_;
    ++share->running_;
    TakeTurn(share);
    Run(share, std::move(job));
  }
}

void JobQueue::Run(const std::shared_ptr<Share>& share, Job job) {
  asio::post(threads_, [this, share = share, job = std::move(job)]() mutable {
    job.call();
    // The last owner must not be this thread, which the owner's end waits for.
    asio::post(loop_, [this, share = std::move(share), job = std::move(job)] {
      --running_;
      --share->running_;
      job.then();
      TakeTurn(share);
      Start();
    });
  });
}

}  // namespace warpverbs::inline v0_2::gpuio
