// Mistakes that a checked build refuses to post. This program is compiled with WARPVERBS_CHECKED.
#include <gtest/gtest.h>

#include <iterator>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/arch/cpu_block.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"

namespace warpverbs::device {
namespace {

using arch::Cpu;

static_assert(kChecked);

constexpr mlx5::Be32 Key(uint32_t key) { return mlx5::ToBe32(key); }

constexpr Region kRegions[] = {
    {0x1000, 0x100, Key(1).raw, kLocal | kWritable},
    {0x2000, 0x100, Key(2).raw, kLocal},
    {0x3000, 0x100, Key(1).raw, kWritable | kReadable | kAtomic},  // lkeys and rkeys are separate
    {0x4000, 0x100, Key(4).raw, kReadable},
    {0x5000, 0x100, Key(5).raw, kWritable},
    {UINT64_MAX - 0xff, 0x100, Key(6).raw, kLocal | kWritable},  // ends at the last address
    {0x7000, 0x100, Key(7).raw, kWritable | kReadable | kAtomic | kRelaxed},
};

constexpr LocalMemory kHere{0x1000, 0x10, Key(1)};
constexpr LocalMemory kReadOnly{0x2000, 0x10, Key(2)};
constexpr RemoteMemory kThere{0x3000, Key(1)};
constexpr RemoteMemory kRelaxedThere{0x7000, Key(7)};

class Checked : public testing::Test {
 protected:
  Checked() { memory_.control.regions = &table_; }

  template <class Operation>
  RequestError Post(const Operation& operation) {
    const Status status = SendQueue<Cpu, Exclusive>(memory_.View()).Post(operation).status;
    memory_.control.tail = 0;  // frees all slots for the next post
    EXPECT_EQ(status.code, status.request_error == RequestError::kNone ? Code::kOk : Code::kInvalid);
    if (status.code == Code::kInvalid) {
      EXPECT_EQ(memory_.dbrec, 0U) << "nothing is posted";
    }
    memory_.dbrec = 0;
    return status.request_error;
  }

  const RegionTable table_{kRegions, std::size(kRegions)};
  TestQueue memory_{8};
};

TEST_F(Checked, PostsAllowedOperations) {
  EXPECT_EQ(Post(Write(kThere, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(Write(kThere, kReadOnly)), RequestError::kNone);
  EXPECT_EQ(Post(Write(kThere, kHere, kReadOnly)), RequestError::kNone);
  EXPECT_EQ(Post(WriteImm(kThere, kHere, mlx5::Be32{7})), RequestError::kNone);
  EXPECT_EQ(Post(Read(kThere, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(Send(kHere, kReadOnly)), RequestError::kNone);
  EXPECT_EQ(Post(WriteInline{kThere, uint64_t{1}}), RequestError::kNone);
  EXPECT_EQ(Post(FetchAdd(kThere, uint64_t{1}, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(FetchAdd(kThere, uint32_t{1})), RequestError::kNone);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd(kThere))), RequestError::kNone);
  EXPECT_EQ(Post(Nop()), RequestError::kNone);
  EXPECT_EQ(Post(Fence{}), RequestError::kNone);
  EXPECT_EQ(Post(Dump{kHere}), RequestError::kNone);
  EXPECT_EQ(Post(WaitCq{1, 1}), RequestError::kNone);
}

TEST_F(Checked, AcceptsRangesUpToTheEndOfARegion) {
  EXPECT_EQ(Post(Write(kThere, {0x10ff, 1, Key(1)})), RequestError::kNone);
  EXPECT_EQ(Post(Write(kThere, {0x1000, 0x100, Key(1)})), RequestError::kNone);
  EXPECT_EQ(Post(Write(kThere, {0x10ff, 2, Key(1)})), RequestError::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write(kThere, {0x0fff, 2, Key(1)})), RequestError::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write(kThere, {0x1100, 1, Key(1)})), RequestError::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write({0x30f0, Key(1)}, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(Write({0x30f1, Key(1)}, kHere)), RequestError::kRemoteOutOfBounds);
  EXPECT_EQ(Post(Write({0x2fff, Key(1)}, kHere)), RequestError::kRemoteOutOfBounds);
  EXPECT_EQ(Post(Write({0x30f0, Key(1)}, kHere, kReadOnly)), RequestError::kRemoteOutOfBounds)
      << "the length includes both entries";
}

TEST_F(Checked, RefusesLengthsThatWrapAround) {
  EXPECT_EQ(Post(Write(kThere, {UINT64_MAX - 0x0f, 0x10, Key(6)})), RequestError::kNone);
  EXPECT_EQ(Post(Write(kThere, {UINT64_MAX - 0x0f, 0x11, Key(6)})), RequestError::kLocalOutOfBounds);
  EXPECT_EQ(Post(Read({0x30ff, Key(1)}, {0x1000, 0x10, Key(1)})), RequestError::kRemoteOutOfBounds);
}

TEST_F(Checked, RefusesKeysThatTheirSideDoesNotKnow) {
  EXPECT_EQ(Post(Write(kThere, {0x1000, 1, Key(9)})), RequestError::kUnknownLkey);
  EXPECT_EQ(Post(Write({0x3000, Key(9)}, kHere)), RequestError::kUnknownRkey);
  EXPECT_EQ(Post(Write(kThere, {0x4000, 1, Key(4)})), RequestError::kUnknownLkey) << "it is an rkey";
  EXPECT_EQ(Post(Write({0x2000, Key(2)}, kHere)), RequestError::kUnknownRkey) << "it is an lkey";
  EXPECT_EQ(Post(Write(kThere, kHere, {0x1000, 1, Key(9)})), RequestError::kUnknownLkey)
      << "the second entry's key";
  EXPECT_EQ(Post(Send(kHere, {0x1000, 1, Key(9)})), RequestError::kUnknownLkey);
}

TEST_F(Checked, TellsAKeyInHostByteOrder) {
  EXPECT_EQ(Post(Write(kThere, {0x1000, 1, mlx5::Be32{1}})), RequestError::kSwappedKey);
  EXPECT_EQ(Post(Write({0x3000, mlx5::Be32{1}}, kHere)), RequestError::kSwappedKey);
  EXPECT_EQ(Post(Write(kThere, {0x4000, 1, mlx5::Be32{4}})), RequestError::kUnknownLkey) << "it is an rkey";
}

TEST_F(Checked, RefusesReadsIntoReadOnlyMemory) {
  EXPECT_EQ(Post(Read(kThere, kReadOnly)), RequestError::kLocalReadOnly);
  EXPECT_EQ(Post(Read(kThere, kHere, kReadOnly)), RequestError::kLocalReadOnly);
  EXPECT_EQ(Post(FetchAdd(kThere, uint64_t{1}, kReadOnly)), RequestError::kLocalReadOnly);
  EXPECT_EQ(Post(Dump{kReadOnly}), RequestError::kNone);
}

TEST_F(Checked, RefusesAccessThatThePeerDidNotGrant) {
  const RemoteMemory readable{0x4000, Key(4)}, writable{0x5000, Key(5)};
  EXPECT_EQ(Post(Write(readable, kHere)), RequestError::kRemoteRights);
  EXPECT_EQ(Post(WriteImm(readable, kHere, mlx5::Be32{7})), RequestError::kRemoteRights);
  EXPECT_EQ(Post(WriteInline{readable, uint64_t{1}}), RequestError::kRemoteRights);
  EXPECT_EQ(Post(Read(writable, kHere)), RequestError::kRemoteRights);
  EXPECT_EQ(Post(FetchAdd(writable, uint64_t{1})), RequestError::kRemoteRights);
  EXPECT_EQ(Post(Swap(readable, uint64_t{1})), RequestError::kRemoteRights);
  EXPECT_EQ(Post(Read(readable, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(Write(writable, kHere)), RequestError::kNone);
}

TEST_F(Checked, RefusesMisalignedAtomics) {
  EXPECT_EQ(Post(FetchAdd({0x3004, Key(1)}, uint64_t{1})), RequestError::kMisaligned);
  EXPECT_EQ(Post(FetchAdd({0x3004, Key(1)}, uint32_t{1})), RequestError::kNone);
  EXPECT_EQ(Post(FetchAdd({0x3002, Key(1)}, uint32_t{1})), RequestError::kMisaligned);
  EXPECT_EQ(Post(Swap({0x3001, Key(1)}, uint64_t{1})), RequestError::kMisaligned);
  EXPECT_EQ(Post(SignalAdd({0x3004, Key(1)})), RequestError::kMisaligned);
  EXPECT_EQ(Post(Write({0x3001, Key(1)}, kHere)), RequestError::kNone) << "writes need no alignment";
}

TEST_F(Checked, AcceptsAnyKeyInAnEmptyMessage) {
  EXPECT_EQ(Post(Write({0x3100, Key(9)}, {0, 0, Key(9)})), RequestError::kNone);
  EXPECT_EQ(Post(Send({0, 0, Key(9)})), RequestError::kNone);
}

TEST_F(Checked, ChecksEachPartOfASequence) {
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd({0x5000, Key(5)}))), RequestError::kRemoteRights);
  EXPECT_EQ(Post(PutSignal({0x4000, Key(4)}, kHere, SignalAdd(kThere))), RequestError::kRemoteRights);
  EXPECT_EQ(Post(CountCompletions(WaitCq{1, 1}, {0x3001, Key(1)})), RequestError::kMisaligned);
}

TEST_F(Checked, RefusesSignalsInRelaxedRegions) {
  EXPECT_EQ(Post(SignalSet(kRelaxedThere, 1)), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(SignalAdd(kRelaxedThere)), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalSet(kRelaxedThere, 1))), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd(kRelaxedThere))), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(CountCompletions(WaitCq{1, 1}, kRelaxedThere)), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(SignalSet(kThere, 1)), RequestError::kNone);
  EXPECT_EQ(Post(SignalSet({0x4000, Key(4)}, 1)), RequestError::kRemoteRights);
}

TEST_F(Checked, RefusesSignalledDataInRelaxedRegions) {
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, kHere, SignalSet(kThere, 1))), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, kHere, SignalAdd(kThere))), RequestError::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, {}, SignalAdd(kThere))), RequestError::kNone)
      << "an empty message has no data";
}

TEST_F(Checked, AcceptsUnsignalledDataInRelaxedRegions) {
  EXPECT_EQ(Post(Write(kRelaxedThere, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(WriteImm(kRelaxedThere, kHere, mlx5::Be32{7})), RequestError::kNone);
  EXPECT_EQ(Post(WriteInline{kRelaxedThere, uint64_t{1}}), RequestError::kNone);
  EXPECT_EQ(Post(Read(kRelaxedThere, kHere)), RequestError::kNone);
  EXPECT_EQ(Post(FetchAdd(kRelaxedThere, uint64_t{1})), RequestError::kRelaxedOrdering)
      << "atomics need order";
}

TEST_F(Checked, ChecksOperationsOfBatches) {
  SendQueue<Cpu, Exclusive> queue(memory_.View());
  auto batch = queue.Begin(2);
  EXPECT_EQ(batch.Add(Write(kThere, {0x1000, 1, Key(9)})).status.request_error, RequestError::kUnknownLkey);
  EXPECT_TRUE(batch.Add(Write(kThere, kHere)).status.ok());
  EXPECT_TRUE(batch.Add(Write(kThere, kHere)).status.ok()) << "the slot of the refused one is free";
}

TEST_F(Checked, ChecksReceivesAgainstTheirQueuesTable) {
  mlx5::Wqebb memory[4] = {};
  TestCq cq(4);
  uint32_t record = 0;
  uint64_t state = 0;
  const ReceiveQueueView view{.rq = memory[0].bytes,
                              .dbrec = &record,
                              .cq = cq.View(),
                              .state = &state,
                              .depth = 4,
                              .stride = 32,
                              .regions = &table_,
                              .first_cqe = 0};
  ReceiveQueue<Cpu> queue(view);
  EXPECT_EQ(queue.Post({0x1000, 1, Key(9)}).request_error, RequestError::kUnknownLkey);
  EXPECT_EQ(queue.Post({0x1000, 0x101, Key(1)}).request_error, RequestError::kLocalOutOfBounds);
  EXPECT_EQ(queue.Post(kReadOnly).request_error, RequestError::kLocalReadOnly)
      << "the NIC writes the received data";
  EXPECT_EQ(queue.Post(kHere, kReadOnly).request_error, RequestError::kLocalReadOnly);
  EXPECT_TRUE(queue.Post(kHere, kHere).ok());
}

TEST_F(Checked, ChecksOnlyAlignmentWithoutATable) {
  memory_.control.regions = nullptr;
  EXPECT_EQ(Post(Write({1, Key(9)}, {1, 1, Key(9)})), RequestError::kNone);
  EXPECT_EQ(Post(FetchAdd({4, Key(9)}, uint64_t{1})), RequestError::kMisaligned);
}

TEST_F(Checked, RefusesAllKeysWithAnEmptyTable) {
  const RegionTable none{nullptr, 0};
  memory_.control.regions = &none;
  EXPECT_EQ(Post(Write(kThere, kHere)), RequestError::kUnknownLkey);
  EXPECT_EQ(Post(WriteInline{kThere, uint64_t{1}}), RequestError::kUnknownRkey);
}

TEST_F(Checked, RefusesASecondExclusivePoster) {
  SendQueue<Cpu, Exclusive> first(memory_.View()), second(memory_.View());
  EXPECT_TRUE(first.Post(Nop()).status.ok());
  EXPECT_EQ(second.Post(Nop()).status.request_error, RequestError::kSecondPoster);
  {
    auto batch = second.Begin(1);
    EXPECT_EQ(batch.status().request_error, RequestError::kSecondPoster);
  }
  EXPECT_TRUE(first.Post(Nop()).status.ok()) << "the first one goes on";
  EXPECT_EQ(memory_.control.tail, uint64_t{2} << 32 | 2);
}

TEST_F(Checked, RefusesAllLanesOfASecondExclusiveWarp) {
  arch::cpu::RunBlock(
      4,
      [&](uint32_t lane) {
        SendQueue<Cpu, Exclusive, Warp> warp(memory_.View(), Warp(0b1111));
        EXPECT_TRUE(warp.Post(Nop()).status.ok());
        Cpu::SyncLanes(0b1111);
        if (lane == 0) {
          EXPECT_TRUE((SendQueue<Cpu, Exclusive>(memory_.View()).Post(Nop()).status.ok()));
        }
        Cpu::SyncLanes(0b1111);
        EXPECT_EQ(warp.Post(Nop()).status.request_error, RequestError::kSecondPoster);
      },
      4);
  EXPECT_EQ(memory_.control.tail, uint64_t{5} << 32 | 5);
}

}  // namespace
}  // namespace warpverbs::device
