#include "gpuio/ring/producer.hpp"

#include <cerrno>
#include <thread>

namespace warpverbs::inline v0_2::gpuio {
namespace {

hf3fs_cqe CqeOf(int slot, int64_t result, uint64_t userdata) {
  return {
      .index = slot, .reserved = 0, .result = result, .userdata = reinterpret_cast<const void*>(userdata)};
}

}  // namespace

RingProducer::RingProducer(const RingMemory& memory)
    : memory_(memory),
      states_(static_cast<size_t>(memory.slots())),
      userdata_(static_cast<size_t>(memory.slots())),
      free_(static_cast<size_t>(memory.slots()) + 1) {
  const int head = memory_.sqe_head().load(std::memory_order_acquire);
  const int tail = memory_.sqe_tail().load(std::memory_order_acquire);
  if (memory_.IsSlot(head) && memory_.IsSlot(tail)) {
    for (int place = tail; place != head; place = memory_.Next(place)) {
      const IoSqe sqe = memory_.LoadSqe(place);
      Continue(sqe.index, sqe.userdata);
    }
  }
  const int cqe_head = memory_.cqe_head().load(std::memory_order_acquire);
  const int cqe_tail = memory_.cqe_tail().load(std::memory_order_acquire);
  if (memory_.IsSlot(cqe_head) && memory_.IsSlot(cqe_tail)) {
    for (int place = cqe_tail; place != cqe_head; place = memory_.Next(place)) {
      const IoCqe cqe = memory_.LoadCqe(place);
      Continue(cqe.index, cqe.userdata);
    }
  }
  // One slot is never used: a queue of all slots would look empty.
  for (int slot = 0; slot < memory_.entries(); ++slot) {
    if (states_[static_cast<size_t>(slot)] == kFree) Free(slot);
  }
}

void RingProducer::Continue(int32_t slot, uint64_t userdata) {
  if (!memory_.IsSlot(slot)) return;
  states_[static_cast<size_t>(slot)] = kPrepared;
  userdata_[static_cast<size_t>(slot)] = userdata;
}

void RingProducer::Free(int slot) {
  const int head = free_head_.load(std::memory_order_relaxed);
  free_[static_cast<size_t>(head)].store(slot, std::memory_order_relaxed);
  free_head_.store(NextFree(head), std::memory_order_release);
}

int RingProducer::Prepare(const IoArgs& args) {
  const int free_tail = free_tail_.load(std::memory_order_relaxed);
  if (free_tail == free_head_.load(std::memory_order_acquire)) return -EAGAIN;
  const int head = memory_.sqe_head().load(std::memory_order_relaxed);
  const int tail = memory_.sqe_tail().load(std::memory_order_acquire);
  if (!memory_.IsSlot(head) || !memory_.IsSlot(tail)) return -EIO;
  if (memory_.Next(head) == tail) return -EAGAIN;
  const int slot = free_[static_cast<size_t>(free_tail)].load(std::memory_order_relaxed);
  free_tail_.store(NextFree(free_tail), std::memory_order_release);

  std::atomic<uint8_t>& state = states_[static_cast<size_t>(slot)];
  state.store(kPreparing, std::memory_order_relaxed);
  userdata_[static_cast<size_t>(slot)].store(args.userdata, std::memory_order_relaxed);
  memory_.StoreArgs(slot, args);
  memory_.StoreSqe(head, {.index = slot, .userdata = args.userdata});
  memory_.sqe_head().store(memory_.Next(head), std::memory_order_release);
  uint8_t preparing = kPreparing;  // its completion may have been taken already
  state.compare_exchange_strong(preparing, kPrepared, std::memory_order_acq_rel);
  return slot;
}

size_t RingProducer::Take(std::span<hf3fs_cqe> cqes) {
  const sync::LockGuard lock(taking_);
  size_t taken = 0;
  for (; taken < cqes.size() && !failed_.empty(); ++taken) {
    cqes[taken] = failed_.front();
    failed_.pop_front();
    Free(cqes[taken].index);
  }
  int tail = memory_.cqe_tail().load(std::memory_order_relaxed);
  const int head = memory_.cqe_head().load(std::memory_order_acquire);
  if (!memory_.IsSlot(tail) || !memory_.IsSlot(head)) return taken;
  for (; taken < cqes.size() && tail != head; tail = memory_.Next(tail)) {
    const IoCqe cqe = memory_.LoadCqe(tail);
    if (!memory_.IsSlot(cqe.index)) continue;
    const auto slot = static_cast<size_t>(cqe.index);
    if (states_[slot].exchange(kFree, std::memory_order_acq_rel) == kFree) continue;
    cqes[taken++] = CqeOf(cqe.index, cqe.result, userdata_[slot].load(std::memory_order_relaxed));
    Free(cqe.index);
  }
  memory_.cqe_tail().store(tail, std::memory_order_release);
  return taken;
}

/// A prepared request is still in the queue, or completed, or lost with the daemon that took it.
void RingProducer::Fail(int error, bool also_queued) {
  const sync::LockGuard lock(taking_);  // so that no slot becomes free, and then a new request's, meanwhile
  // Before the states are read: all requests below this head are prepared then.
  const int queued_until = memory_.sqe_head().load(std::memory_order_acquire);
  std::vector<bool> lost(states_.size());
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    while (states_[slot].load(std::memory_order_acquire) == kPreparing) std::this_thread::yield();
    lost[slot] = states_[slot].load(std::memory_order_acquire) == kPrepared;
  }
  const auto keep = [&](int slot) {
    if (memory_.IsSlot(slot)) lost[static_cast<size_t>(slot)] = false;
  };
  if (also_queued) memory_.sqe_tail().store(queued_until, std::memory_order_release);
  const int head = memory_.sqe_head().load(std::memory_order_acquire);
  const int tail = memory_.sqe_tail().load(std::memory_order_acquire);
  if (memory_.IsSlot(head) && memory_.IsSlot(tail)) {
    for (int place = tail; place != head; place = memory_.Next(place)) keep(memory_.LoadSqe(place).index);
  }
  const int cqe_head = memory_.cqe_head().load(std::memory_order_acquire);
  const int cqe_tail = memory_.cqe_tail().load(std::memory_order_acquire);
  if (memory_.IsSlot(cqe_head) && memory_.IsSlot(cqe_tail)) {
    for (int place = cqe_tail; place != cqe_head; place = memory_.Next(place))
      keep(memory_.LoadCqe(place).index);
  }
  for (size_t slot = 0; slot < states_.size(); ++slot) {
    if (!lost[slot]) continue;
    states_[slot].store(kFree, std::memory_order_release);
    failed_.push_back(CqeOf(static_cast<int>(slot), -error, userdata_[slot].load(std::memory_order_relaxed)));
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
