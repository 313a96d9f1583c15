#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// Three posters that reserve one slot each, in order. The test chooses when each publishes.
template <Sharing S>
class ThreePosters : public testing::TestWithParam<FetchUpTo> {
 protected:
  using Queue = SendQueue<arch::Cpu, S>;

  /// A batch of one slot. Batches cannot be moved, so this holds one in place.
  struct OneSlot {
    explicit OneSlot(Queue& queue) : batch(queue.Begin(1)) {}
    ~OneSlot() noexcept {}  // a fixture's destructor must not throw, unlike a batch's
    typename Queue::Batch batch;
  };

  /// Makes the queue and its posters, which have reserved nothing.
  void Open(uint32_t depth, uint32_t start) {
    memory_.emplace(depth, start);
    nic_.emplace(*memory_, start, GetParam());
    for (auto& queue : queues_) queue.emplace(ViewFor<S>(*memory_));
  }
  /// The same; then all have reserved.
  void Begin(uint32_t depth, uint32_t start) {
    Open(depth, start);
    for (uint32_t i = 0; i < 3; ++i) batches_[i].emplace(*queues_[i]);
  }

  Posted Submit(uint32_t poster) { return batches_[poster]->batch.Submit(); }

  void StepAll() {
    while (nic_->Step()) {
    }
    EXPECT_EQ(nic_->violation(), "");
  }

  std::optional<TestQueue> memory_;
  std::optional<TestNic> nic_;
  std::optional<Queue> queues_[3];
  std::optional<OneSlot> batches_[3];
};

inline std::string NameOfFetch(const testing::TestParamInfo<FetchUpTo>& fetch) {
  return fetch.param == FetchUpTo::kDoorbell ? "FetchUpToDoorbell" : "FetchUpToRecord";
}

}  // namespace warpverbs::inline v0_2::device
