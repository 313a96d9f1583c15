#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "nic_thread.hpp"
#include "together.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::inline v0_2::device {

/// Posts 100 writes to a queue whose NIC runs on a thread, waits for a third of them, and flushes.
template <Sharing S>
void ExpectManyWrites(TestQueue& memory, TestNic& nic) {
  NicThread thread(nic);
  SendQueue<arch::Cpu, S> queue(ViewFor<S>(memory));
  std::vector<uint32_t> from(100), to(100);
  for (uint32_t i = 0; i < 100; ++i) {
    from[i] = i + 1;
    const Posted posted = queue.Post(Write(Remote(to[i]), Local(from[i])), Soon());
    ASSERT_TRUE(posted.status.ok()) << i;
    ASSERT_TRUE(i % 3 != 0 || queue.Wait(posted.ticket, Soon()).ok());
  }
  ASSERT_TRUE(queue.Flush(Soon()).ok());
  EXPECT_EQ(from, to);
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
}

}  // namespace warpverbs::inline v0_2::device
