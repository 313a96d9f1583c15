#include "warpverbs/device/raw_send_queue.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "nic_thread.hpp"
#include "test_nic.hpp"
#include "together.hpp"
#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

TEST(RawSendQueue, NicThatSeesTheDoorbellSeesRecordAndWqe) {  // under ThreadSanitizer this proves the order
  TestQueue queue(4);
  std::jthread nic{[&] {
    while (std::atomic_ref(queue.doorbell).load(std::memory_order_acquire) == 0) std::this_thread::yield();
    EXPECT_EQ(queue.dbrec, mlx5::ToBe32(1).raw);  // plain reads: a race unless the doorbell orders them
    EXPECT_EQ(queue.ring[0].bytes[3], static_cast<uint8_t>(mlx5::WqeOpcode::kNop));
    EXPECT_EQ(queue.ring[0].bytes[7], 1);
  }};
  const RawSendQueue<Cpu> ring(queue.View());
  const mlx5::Be64 doorbell = ring.Post(0, Nop());
  ring.UpdateSendDbrRecord(1);
  ring.RingDoorbell(doorbell);
}

TEST(RawSendQueue, NicThatSeesTheRecordSeesTheWqe) {
  TestQueue queue(4);
  std::jthread nic{[&] {
    while (std::atomic_ref(queue.dbrec).load(std::memory_order_acquire) == 0) std::this_thread::yield();
    EXPECT_EQ(queue.ring[0].bytes[7], 1);
  }};
  const RawSendQueue<Cpu> ring(queue.View());
  ring.Post(0, Nop());
  ring.UpdateSendDbrRecord(1);
}

TEST(RawSendQueue, RecordCountsModulo16Bits) {
  TestQueue queue(4);
  RawSendQueue<Cpu>(queue.View()).UpdateSendDbrRecord(0x1'2345);
  EXPECT_EQ(queue.dbrec, mlx5::ToBe32(0x2345).raw);
}

TEST(RawSendQueue, WorksWithoutARecord) {
  TestQueue queue(4);
  QueueView view = queue.View();
  view.dbrec = nullptr;
  RawSendQueue<Cpu>(view).UpdateSendDbrRecord(1);
  EXPECT_EQ(queue.dbrec, 0U);
}

TEST(RawSendQueue, PublishesManyWqesByOneDoorbell) {
  TestQueue queue(64);
  TestNic nic(queue);
  NicThread thread(nic);
  const RawSendQueue<Cpu> ring(queue.View());
  uint64_t from[64];
  uint64_t to[64]{};
  mlx5::Be64 doorbell{};
  for (uint32_t i = 0; i < 64; ++i) {
    from[i] = 1000 + i;
    doorbell =
        ring.PostWrite(i, Remote(to[i]), Local(from[i]), i == 63 ? mlx5::kCqeAlways : mlx5::kCqeOnError);
  }
  ring.UpdateSendDbrRecord(64);
  ring.RingDoorbell(doorbell);
  EXPECT_TRUE(ring.PollCq(63, Soon()).ok());
  thread.Stop();
  EXPECT_EQ(nic.violation(), "");
  EXPECT_TRUE(std::equal(from, from + 64, to));
}

TEST(RawSendQueue, IsPendingForEverySlotWhenFresh) {
  TestQueue queue(32768);
  const RawSendQueue<Cpu> ring(queue.View());
  for (uint32_t index = 0; index < 32768; ++index) {
    ASSERT_EQ(ring.PollCqOnce(index).code, Code::kPending) << index;
  }
}

TEST(RawSendQueue, ReportsTheCauseOfAnError) {
  TestQueue queue(4);
  WriteCqe(queue.cqe, {mlx5::CqeOpcode::kRequesterError, 2, mlx5::Syndrome::kRemoteAccess});
  const Status status = RawSendQueue<Cpu>(queue.View()).PollCqOnce(2);
  EXPECT_EQ(status.code, Code::kError);
  EXPECT_EQ(status.syndrome, static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess));
  EXPECT_EQ(status.vendor_syndrome, kVendorSyndrome);
  EXPECT_EQ(status.wqe_index, 2);
}

TEST(RawSendQueue, StopsPollingAtItsLimit) {
  TestQueue queue(4);
  const RawSendQueue<Cpu> ring(queue.View());
  EXPECT_EQ(ring.PollCq(0, {}).code, Code::kTimeout);
  EXPECT_EQ(ring.PollCq(0, {.deadline_ns = Cpu::NowNs() + 1'000'000}).code, Code::kTimeout);
  const uint64_t abort = 1;
  EXPECT_EQ(ring.PollCq(0, {.deadline_ns = UINT64_MAX, .abort = &abort}).code, Code::kAborted);
}

}  // namespace
}  // namespace warpverbs::device
