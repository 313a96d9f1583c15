#include "gpuio/server/scheduler.hpp"

#include <algorithm>
#include <utility>

#include "gpuio/server/arena.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr auto kQuantum = static_cast<int64_t>(kChunkBytes);  // what a turn adds to a share's credit
constexpr size_t kMinCost = 4096;                             // a small piece costs an operation, too

}  // namespace

void Scheduler::Add(const std::shared_ptr<Share>& share, std::shared_ptr<BufferUser> user) {
  if (share->closed_) return;
  share->waiting_.push_back(std::move(user));
  if (!std::exchange(share->in_turn_, true)) turns_.push_back(share);
  Run();
}

void Scheduler::Return(Share& share, uint8_t* buffer) {
  --share.held_;
  source_.put(buffer);
  Run();
}

void Scheduler::Close(Share& share) {
  share.closed_ = true;
  for (const auto& user : std::exchange(share.waiting_, {})) user->Abandon();
}

/// Deficit round robin: a turn ends when the credit is used up, or the client may hold no more.
void Scheduler::Run() {
  if (std::exchange(running_, true)) return;
  size_t idle_turns = 0;
  while (!turns_.empty() && idle_turns <= turns_.size() && source_.free() > 0) {
    const std::shared_ptr<Share> share = std::move(turns_.front());
    turns_.pop_front();
    if (share->waiting_.empty()) {
      share->in_turn_ = false;
      share->credit_ = 0;
      continue;
    }
    if (!std::exchange(share->goes_on_, false))
      share->credit_ = std::min(share->credit_ + kQuantum, kQuantum);
    bool started = false;
    while (share->credit_ > 0 && !share->waiting_.empty() && share->held_ < source_.free()) {
      const std::shared_ptr<BufferUser> user = std::move(share->waiting_.front());
      share->waiting_.pop_front();
      if (!user->WantsBuffer()) continue;
      ++share->held_;
      share->credit_ -= static_cast<int64_t>(std::max(user->Start(source_.take()), kMinCost));
      if (user->WantsBuffer() && !share->closed_) share->waiting_.push_back(user);
      started = true;
    }
    idle_turns = started ? 0 : idle_turns + 1;
    // A turn that ends because no buffer is left goes on with the next one.
    share->goes_on_ = source_.free() == 0 && share->credit_ > 0 && !share->waiting_.empty();
    if (share->goes_on_) {
      turns_.push_front(share);
    } else {
      turns_.push_back(share);
    }
  }
  running_ = false;
}

}  // namespace warpverbs::inline v0_2::gpuio
