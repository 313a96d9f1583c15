#include "warpverbs/host/shared_completions.hpp"

#include <algorithm>
#include <cstring>

#include "queue/completions_attachment.hpp"
#include "queue/queue_layout.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/detail/drain.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using arch::Cpu;

constexpr uint64_t kDrainLimitNs = 1'000'000'000;  // draining takes microseconds
constexpr uint32_t kMaxQueues = 1u << 16;

uint32_t CheckedQueues(const Device& device, uint32_t max_queues) {
  if (max_queues == 0 || max_queues > kMaxQueues) {
    throw Error("create",
                "a ring of completions for " + std::to_string(max_queues) + " queues on " + device.name(),
                "the number is out of range", "Ask for 1 to " + std::to_string(kMaxQueues) + " queues");
  }
  return max_queues;
}

uint32_t CheckedDepth(const Device& device, uint32_t depth) {
  if (!device.capabilities().cqe_user_index) {
    throw Error("create", "shared completions on " + device.name(),
                "the device's completions do not name their queue",
                "Give each endpoint a CQ of its own: leave EndpointConfig::completions null");
  }
  return RingDepth(RoundDepth(depth, device.capabilities().max_cqes, "a ring of shared completions"));
}

std::string PostersOn(std::optional<int> gpu) {
  return gpu ? "kernels of cuda:" + std::to_string(*gpu) : "threads of the CPU";
}

Error CannotShare(const std::string& reason, const std::string& remedy) {
  return {"create", "an endpoint on shared completions", reason, remedy};
}

}  // namespace

bool DrainAll(device::CompletionRingControl& ring) {
  const auto first = static_cast<uint32_t>(Cpu::Load(&ring.consumer));
  device::Waiter<Cpu, device::RunClock<Cpu>> waiter({.deadline_ns = kDrainLimitNs});
  for (bool in_time = true;; in_time = waiter.Next() == device::Code::kPending) {
    device::Drain<Cpu>(ring);
    const uint64_t consumer = Cpu::LoadAcquire(&ring.consumer);
    const auto index = static_cast<uint32_t>(consumer);
    if ((consumer & device::kRingLocked) == 0) {
      arch::CqeTail tail;
      // Other queues may keep the ring from becoming empty, but after a full round all is consumed.
      if (index - first >= ring.cq.depth) return true;
      if (!device::CompletionRing<Cpu>(ring.cq, index).Next(tail)) return true;
    }
    if (!in_time) return false;
  }
}

SharedCompletions::Impl::Layout::Layout(uint32_t depth, uint32_t max_queues)
    : control(AlignUp(size_t{64} * depth, 4096)),
      queues(control + sizeof(device::CompletionRingControl)),
      dbr(AlignUp(queues + sizeof(device::QueueControl*) * max_queues, 128)),
      bytes(dbr + sizeof(mlx5::CqDbr)) {}

SharedCompletions::Impl::Impl(const Device& device, const SharedCompletionsConfig& config)
    : device_(device),
      gpu_(config.gpu != nullptr ? std::optional(config.gpu->ordinal()) : std::nullopt),
      depth_(CheckedDepth(device, config.depth)),
      layout_(depth_, CheckedQueues(device, config.max_queues)),
      pages_(PagesWithCqes(layout_.bytes, 0, size_t{64} * depth_)),
      uar_(device.context()),
      umem_(device.context(), pages_.data(), pages_.size()),
      cq_(std::make_shared<const CompletionQueue>(device.context(),
                                                  CompletionQueueConfig{.mode = CqMode::kRing,
                                                                        .depth = depth_,
                                                                        .uar_page = uar_.page_id(),
                                                                        .umem_id = umem_.id(),
                                                                        .cqes_offset = 0,
                                                                        .dbr_offset = layout_.dbr})),
      depths_(config.max_queues) {
  if (config.gpu != nullptr) mapping_.emplace(*config.gpu, pages_.bytes());
  auto* const dbr = reinterpret_cast<mlx5::CqDbr*>(pages_.data() + layout_.dbr);
  control().cq = {
      .cqe = reinterpret_cast<uint8_t*>(pages_.data()), .dbrec = &dbr->consumer_index.raw, .depth = depth_};
  control().queues = queues();
}

device::CompletionRingControl& SharedCompletions::Impl::control() const {
  return *reinterpret_cast<device::CompletionRingControl*>(pages_.data() + layout_.control);
}

device::QueueControl** SharedCompletions::Impl::queues() const {
  return reinterpret_cast<device::QueueControl**>(pages_.data() + layout_.queues);
}

uint32_t SharedCompletions::Impl::Attach(device::QueueControl& queue, uint32_t depth) {
  const sync::LockGuard lock(mutex_);
  if (depth > depth_ - used_) {
    throw CannotShare("its send queue has " + std::to_string(depth) + " WQEBBs, and only " +
                          std::to_string(depth_ - used_) + " of the ring's " + std::to_string(depth_) +
                          " CQEs are free",
                      "Make the ring as deep as the sum of its queues");
  }
  const auto free = std::find(depths_.begin(), depths_.end(), 0);
  if (free == depths_.end()) {
    throw CannotShare("the ring has " + std::to_string(depths_.size()) + " queues already",
                      "Raise SharedCompletionsConfig::max_queues");
  }
  const auto user_index = static_cast<uint32_t>(free - depths_.begin());
  *free = depth;
  used_ += depth;
  queues()[user_index] = &queue;
  return user_index;
}

void SharedCompletions::Impl::Detach(uint32_t user_index) {
  const sync::LockGuard lock(mutex_);
  const bool drained = DrainAll(control());
  queues()[user_index] = nullptr;
  // Otherwise a stuck poster may still deliver to this place, so it must not be used again.
  if (drained) Free(user_index);
}

void SharedCompletions::Impl::Free(uint32_t user_index) {
  used_ -= depths_[user_index];
  depths_[user_index] = 0;
}

void SharedCompletions::Impl::Recover() {
  const sync::LockGuard lock(mutex_);
  device::CompletionRingControl& ring = control();
  const auto consumer = [&ring] { return Cpu::Load(&ring.consumer); };
  Cpu::Store(&ring.consumer, OldestOnRing(ring.cq, consumer(), consumer));
  if (!DrainAll(ring)) {
    throw Error("recover", "a ring of shared completions",
                "a poster has taken its lock again and does not release it",
                "End all kernels and threads that use a queue of the ring first");
  }
  for (uint32_t i = 0; i < depths_.size(); ++i) {
    if (depths_[i] != 0 && queues()[i] == nullptr) Free(i);
  }
}

SharedCompletions::SharedCompletions(const Device& device, const SharedCompletionsConfig& config)
    : impl_(std::make_unique<Impl>(device, config)) {}
SharedCompletions::~SharedCompletions() {
  if (!impl_->InOwnProcess()) static_cast<void>(impl_.release());
}
uint32_t SharedCompletions::cqn() const { return impl_->cq()->cqn(); }
uint32_t SharedCompletions::depth() const { return impl_->depth(); }
device::CompletionRingControl& SharedCompletions::control() const { return impl_->control(); }
void SharedCompletions::Recover() { impl_->Recover(); }

CompletionsAttachment::CompletionsAttachment(SharedCompletions& ring, const Device& device,
                                             std::optional<int> gpu, device::QueueControl& queue,
                                             uint32_t depth)
    : ring_(ring) {
  if (&ring.impl_->device() != &device) {
    throw CannotShare("they belong to another Device object", "Create both on the same one");
  }
  if (ring.impl_->gpu() != gpu) {
    throw CannotShare(PostersOn(gpu) + " post to it, but " + PostersOn(ring.impl_->gpu()) +
                          " to the ring's queues, and only threads of one processor share the ring's lock",
                      "Create a ring for each processor: SharedCompletionsConfig::gpu");
  }
  user_index_ = ring.impl_->Attach(queue, depth);
}

CompletionsAttachment::~CompletionsAttachment() { ring_.impl_->Detach(user_index_); }

const std::shared_ptr<const CompletionQueue>& CompletionsAttachment::cq() const { return ring_.impl_->cq(); }

}  // namespace warpverbs::inline v0_2::host
