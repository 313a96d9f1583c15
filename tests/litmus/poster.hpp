#pragma once

#include <gtest/gtest.h>

#include "litmus.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::inline v0_2::device {

inline auto WriteOf(uint64_t& word) { return Write(Remote(word), Local(word)); }

/// Reserves when `steps` reaches `step`, and publishes once all three posters have reserved.
template <Sharing S>
void ReserveAndPublish(LitmusQueue& memory, Steps& steps, uint32_t step, uint64_t& data, uint64_t value) {
  SendQueue<LitmusCpu, S> queue(ViewFor<S>(memory));
  steps.Await(step);
  auto batch = queue.Begin(1, Soon());
  steps.Reach(step + 1);
  data = value;
  EXPECT_TRUE(batch.Add(WriteOf(data)).status.ok());
  steps.Await(3);
  EXPECT_TRUE(batch.Submit().status.ok());
}

}  // namespace warpverbs::inline v0_2::device
