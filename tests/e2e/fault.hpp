#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "pair.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace warpverbs::e2e {

/// The expected report of a fault.
struct Fault {
  mlx5::Syndrome syndrome;
  std::string words;  ///< part of the text from Describe()
};

inline void ExpectError(const device::Status& status, const Fault& fault) {
  EXPECT_EQ(status.code, device::Code::kError);
  const auto syndrome = static_cast<mlx5::Syndrome>(status.syndrome);
  EXPECT_EQ(syndrome, fault.syndrome) << mlx5::Describe(syndrome);
  EXPECT_THAT(mlx5::Describe(syndrome), testing::HasSubstr(fault.words));
}

/// Posts a write without the queue's bookkeeping, and expects the NIC to flush it.
inline void ExpectFlush(const Pair& pair, uint32_t index) {
  const device::RawSendQueue<Cpu> queue(pair.a.View());
  const mlx5::Be64 doorbell = queue.PostWrite(index, pair.Remote(0), pair.Local(0, 8));
  queue.UpdateSendDbrRecord(index + 1);
  queue.RingDoorbell(doorbell);
  device::CompletionRing<Cpu> completions(pair.a.CompletionView());
  device::Status status;
  do {
    status = completions.PollCq(Within());
    ASSERT_NE(status.code, device::Code::kTimeout) << "WQE " << index << " is not flushed";
  } while (status.wqe_index != index);
  ExpectError(status, {mlx5::Syndrome::kFlushed, "flushed"});
}

/// Waits for a write that fails. Then expects the same error from every call, and flushes.
template <class Sharing>
void ExpectFault(const Pair& pair, Queue<Sharing>& queue, const device::Posted& posted, const Fault& fault) {
  ASSERT_EQ(posted.status.code, device::Code::kOk) << "the fault is known only after the post";
  const device::Status status = queue.Wait(posted.ticket, Within());
  ExpectError(status, fault);
  EXPECT_EQ(status.wqe_index, posted.ticket.index);
  ExpectError(queue.Test(posted.ticket), fault);
  ExpectError(pair.PutWord(queue, 0).status, fault);
  ExpectError(queue.Flush(Within()), fault);
  Queue<Sharing> later(pair.a.View());
  ExpectError(pair.PutWord(later, 0).status, fault);
  EXPECT_EQ(pair.a.State(), mlx5::QpState::kError);
  ExpectFlush(pair, posted.ticket.index + 1);
}

}  // namespace warpverbs::e2e
