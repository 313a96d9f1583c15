#include "gpuio/ring/consumer.hpp"

#include <algorithm>

#include "gpuio/ring/shared_semaphore.hpp"

namespace warpverbs::inline v0_2::gpuio {

RingConsumer::RingConsumer(const RingMemory& memory, const RingConfig& config)
    : memory_(memory),
      config_(config),
      sqe_tail_(memory.sqe_tail().load(std::memory_order_acquire)),
      cqe_head_(memory.cqe_head().load(std::memory_order_acquire)),
      taken_(static_cast<size_t>(memory.slots())),
      userdata_(static_cast<size_t>(memory.slots())) {
  if (!memory_.IsSlot(sqe_tail_)) Break("the tail of its submissions is", sqe_tail_);
  if (!memory_.IsSlot(cqe_head_)) Break("the head of its completions is", cqe_head_);
  if (config_.io_depth > memory_.entries()) Break("its io_depth is", config_.io_depth);
  config_.io_depth = std::max(config_.io_depth, -memory_.entries());  // no batch is larger
  memory_.is_closed().store(0, std::memory_order_release);
}

void RingConsumer::Close() {
  memory_.is_closed().store(1, std::memory_order_release);
  SharedSemaphore(memory_.semaphore()).Post();
}

bool RingConsumer::Break(const char* what, int64_t value) {
  if (fault_.empty()) {
    fault_ = std::string(what) + " " + std::to_string(value) + ", and it has " +
             std::to_string(memory_.entries()) + " entries";
  }
  return false;
}

bool RingConsumer::Look(int& waiting, int& room) {
  const int head = memory_.sqe_head().load(std::memory_order_acquire);
  if (!memory_.IsSlot(head)) return Break("the head of its submissions is", head);
  const int cqe_tail = memory_.cqe_tail().load(std::memory_order_acquire);
  if (!memory_.IsSlot(cqe_tail)) return Break("the tail of its completions is", cqe_tail);
  waiting = memory_.Distance(sqe_tail_, head);
  room = memory_.entries() - memory_.Distance(cqe_tail, cqe_head_) - in_flight_;
  return true;
}

/// Returns how many requests start now, and sets the deadline of a partial batch that does not.
int RingConsumer::BatchSize(int waiting, int room, Clock::time_point now) {
  const int depth = config_.io_depth;
  if (depth > 0) return waiting >= depth && room >= depth ? depth : 0;
  if (depth == 0) return std::min(waiting, room);
  if (waiting >= -depth) return room >= -depth ? -depth : 0;
  if (waiting == 0 || room < waiting) return 0;
  if (config_.timeout_ms == 0) return waiting;
  if (!deadline_) deadline_ = now + std::chrono::milliseconds(config_.timeout_ms);
  return now >= *deadline_ ? waiting : 0;
}

std::vector<TakenIo> RingConsumer::Take(Clock::time_point now) {
  std::vector<TakenIo> batch;
  int waiting = 0, room = 0;
  if (!fault_.empty() || !Look(waiting, room)) return batch;
  const int size = waiting > 0 && room > 0 ? BatchSize(waiting, room, now) : 0;
  if (size == 0) {
    if (waiting == 0 || room < waiting) deadline_.reset();  // the partial batch that it was for has gone
    return batch;
  }
  deadline_.reset();
  batch.reserve(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) {
    const IoSqe sqe = memory_.LoadSqe(sqe_tail_);
    if (!memory_.IsSlot(sqe.index)) {
      Break("a submission has index", sqe.index);
      break;
    }
    const auto slot = static_cast<size_t>(sqe.index);
    if (taken_[slot]) {
      Break("a submission has the index of another one under way,", sqe.index);
      break;
    }
    taken_[slot] = true;
    userdata_[slot] = sqe.userdata;
    ++in_flight_;
    sqe_tail_ = memory_.Next(sqe_tail_);
    batch.push_back({sqe.index, memory_.LoadArgs(sqe.index)});
  }
  memory_.sqe_tail().store(sqe_tail_, std::memory_order_release);
  return batch;
}

void RingConsumer::Complete(int slot, int64_t result) {
  taken_[static_cast<size_t>(slot)] = false;
  --in_flight_;
  if (!fault_.empty()) return;
  const int cqe_tail = memory_.cqe_tail().load(std::memory_order_acquire);
  if (!memory_.IsSlot(cqe_tail)) {
    Break("the tail of its completions is", cqe_tail);
    return;
  }
  // An application that moves its tail back has promised room that it does not have.
  if (memory_.Next(cqe_head_) == cqe_tail) {
    Break("no completion was taken from index", cqe_tail);
    return;
  }
  memory_.StoreCqe(cqe_head_,
                   {.index = slot, .result = result, .userdata = userdata_[static_cast<size_t>(slot)]});
  cqe_head_ = memory_.Next(cqe_head_);
  memory_.cqe_head().store(cqe_head_, std::memory_order_release);
  SharedSemaphore(memory_.semaphore()).Post();
}

}  // namespace warpverbs::inline v0_2::gpuio
