#pragma once

#include "perf/device/work.hpp"
#include "warpverbs/device/receive_queue.hpp"

namespace warpverbs::perf {

/// Receives a flow's messages, and keeps its receive queue full.
template <arch::Arch A>
class ReceivingFlow {
 public:
  WARPVERBS_DEVICE ReceivingFlow(const ReceiveJob& job, uint32_t number)
      : job_(job), flow_(job.flows[number]), number_(number), queue_(flow_.queue) {}
  ReceivingFlow(ReceivingFlow&&) noexcept = default;

  WARPVERBS_DEVICE bool Done() const { return taken_ == job_.count || !status_.ok(); }
  WARPVERBS_DEVICE const device::Status& status() const { return status_; }
  WARPVERBS_DEVICE void Fail(device::Code code) { status_ = {.code = code}; }

  /// Takes the messages that have arrived, and posts as many receives. Returns false if there were none.
  WARPVERBS_DEVICE bool Step() {
    const uint32_t before = taken_;
    while (taken_ != job_.count) {
      const device::Received received = queue_.PollOnce();
      if (received.status.code == device::Code::kPending) break;
      if (!received.status.ok()) {
        status_ = received.status;
        return false;
      }
      ++taken_;
      Post(received.index + flow_.queue.depth);
    }
    if (taken_ == before) return false;
    queue_.Submit();
    return true;
  }

  WARPVERBS_DEVICE void End() {
    RecordResult<A>(*job_.result, status_, number_);
  }

  /// Fills the queue once.
  WARPVERBS_DEVICE void Fill() {
    for (uint32_t i = 0; i < flow_.queue.depth; ++i) Post(i);
    queue_.Submit();
  }

 private:
  WARPVERBS_DEVICE void Post(uint32_t index) {
    const uint64_t offset = index % flow_.slots * flow_.stride;
    status_ = queue_.Post({flow_.local.addr + offset, flow_.local.bytes, flow_.local.lkey});
  }

  const ReceiveJob& job_;
  const ReceiveFlow& flow_;
  uint32_t number_;
  device::ReceiveQueue<A> queue_;
  uint32_t taken_ = 0;
  device::Status status_;
};

}  // namespace warpverbs::perf
