// What a checked build finds before it posts. This program is compiled with WARPVERBS_CHECKED.
#include <gtest/gtest.h>

#include <iterator>

#include "test_nic.hpp"
#include "warpverbs/arch/cpu.hpp"
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
    {0x3000, 0x100, Key(1).raw, kWritable | kReadable | kAtomic},  // the peer's keys are its own
    {0x4000, 0x100, Key(4).raw, kReadable},
    {0x5000, 0x100, Key(5).raw, kWritable},
    {UINT64_MAX - 0xff, 0x100, Key(6).raw, kLocal | kWritable},  // up to the end of all addresses
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
  Mistake Post(const Operation& operation) {
    SendQueue<Cpu, Exclusive> queue(memory_.View());
    const Status status = queue.Post(operation).status;
    EXPECT_EQ(status.code, status.mistake == Mistake::kNone ? Code::kOk : Code::kInvalid);
    if (status.code == Code::kInvalid) {
      EXPECT_EQ(memory_.dbrec, 0U) << "nothing is posted";
    }
    memory_.dbrec = 0;
    return status.mistake;
  }

  const RegionTable table_{kRegions, std::size(kRegions)};
  TestQueue memory_{8};
};

TEST_F(Checked, WhatIsAllowedIsPosted) {
  EXPECT_EQ(Post(Write(kThere, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(Write(kThere, kReadOnly)), Mistake::kNone);
  EXPECT_EQ(Post(Write(kThere, kHere, kReadOnly)), Mistake::kNone);
  EXPECT_EQ(Post(WriteImm(kThere, kHere, {7})), Mistake::kNone);
  EXPECT_EQ(Post(Read(kThere, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(Send(kHere, kReadOnly)), Mistake::kNone);
  EXPECT_EQ(Post(WriteInline{kThere, uint64_t{1}}), Mistake::kNone);
  EXPECT_EQ(Post(FetchAdd(kThere, uint64_t{1}, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(FetchAdd(kThere, uint32_t{1})), Mistake::kNone);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd(kThere))), Mistake::kNone);
  EXPECT_EQ(Post(Nop()), Mistake::kNone);
  EXPECT_EQ(Post(Fence{}), Mistake::kNone);
  EXPECT_EQ(Post(Dump{kHere}), Mistake::kNone);
  EXPECT_EQ(Post(WaitCq{1, 1}), Mistake::kNone);
}

TEST_F(Checked, RangesMayReachTheEndOfARegionButNotFurther) {
  EXPECT_EQ(Post(Write(kThere, {0x10ff, 1, Key(1)})), Mistake::kNone);
  EXPECT_EQ(Post(Write(kThere, {0x1000, 0x100, Key(1)})), Mistake::kNone);
  EXPECT_EQ(Post(Write(kThere, {0x10ff, 2, Key(1)})), Mistake::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write(kThere, {0x0fff, 2, Key(1)})), Mistake::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write(kThere, {0x1100, 1, Key(1)})), Mistake::kLocalOutOfBounds);
  EXPECT_EQ(Post(Write({0x30f0, Key(1)}, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(Write({0x30f1, Key(1)}, kHere)), Mistake::kRemoteOutOfBounds);
  EXPECT_EQ(Post(Write({0x2fff, Key(1)}, kHere)), Mistake::kRemoteOutOfBounds);
  EXPECT_EQ(Post(Write({0x30f0, Key(1)}, kHere, kReadOnly)), Mistake::kRemoteOutOfBounds)
      << "both entries count";
}

TEST_F(Checked, LengthsThatWrapAroundAreOutOfBounds) {
  EXPECT_EQ(Post(Write(kThere, {UINT64_MAX - 0x0f, 0x10, Key(6)})), Mistake::kNone);
  EXPECT_EQ(Post(Write(kThere, {UINT64_MAX - 0x0f, 0x11, Key(6)})), Mistake::kLocalOutOfBounds);
  EXPECT_EQ(Post(Read({0x30ff, Key(1)}, {0x1000, 0x10, Key(1)})), Mistake::kRemoteOutOfBounds);
}

TEST_F(Checked, KeysMustBeKnownOnTheirSide) {
  EXPECT_EQ(Post(Write(kThere, {0x1000, 1, Key(9)})), Mistake::kUnknownLkey);
  EXPECT_EQ(Post(Write({0x3000, Key(9)}, kHere)), Mistake::kUnknownRkey);
  EXPECT_EQ(Post(Write(kThere, {0x4000, 1, Key(4)})), Mistake::kUnknownLkey) << "it is an rkey";
  EXPECT_EQ(Post(Write({0x2000, Key(2)}, kHere)), Mistake::kUnknownRkey) << "it is an lkey";
  EXPECT_EQ(Post(Write(kThere, kHere, {0x1000, 1, Key(9)})), Mistake::kUnknownLkey) << "of the second entry";
  EXPECT_EQ(Post(Send(kHere, {0x1000, 1, Key(9)})), Mistake::kUnknownLkey);
}

TEST_F(Checked, WhatTheNicWritesMustBeWritable) {
  EXPECT_EQ(Post(Read(kThere, kReadOnly)), Mistake::kLocalReadOnly);
  EXPECT_EQ(Post(Read(kThere, kHere, kReadOnly)), Mistake::kLocalReadOnly);
  EXPECT_EQ(Post(FetchAdd(kThere, uint64_t{1}, kReadOnly)), Mistake::kLocalReadOnly);
  EXPECT_EQ(Post(Dump{kReadOnly}), Mistake::kNone);
}

TEST_F(Checked, ThePeerMustHaveGrantedIt) {
  const RemoteMemory readable{0x4000, Key(4)}, writable{0x5000, Key(5)};
  EXPECT_EQ(Post(Write(readable, kHere)), Mistake::kRemoteRights);
  EXPECT_EQ(Post(WriteImm(readable, kHere, {7})), Mistake::kRemoteRights);
  EXPECT_EQ(Post(WriteInline{readable, uint64_t{1}}), Mistake::kRemoteRights);
  EXPECT_EQ(Post(Read(writable, kHere)), Mistake::kRemoteRights);
  EXPECT_EQ(Post(FetchAdd(writable, uint64_t{1})), Mistake::kRemoteRights);
  EXPECT_EQ(Post(Swap(readable, uint64_t{1})), Mistake::kRemoteRights);
  EXPECT_EQ(Post(Read(readable, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(Write(writable, kHere)), Mistake::kNone);
}

TEST_F(Checked, AtomicsMustBeAligned) {
  EXPECT_EQ(Post(FetchAdd({0x3004, Key(1)}, uint64_t{1})), Mistake::kMisaligned);
  EXPECT_EQ(Post(FetchAdd({0x3004, Key(1)}, uint32_t{1})), Mistake::kNone);
  EXPECT_EQ(Post(FetchAdd({0x3002, Key(1)}, uint32_t{1})), Mistake::kMisaligned);
  EXPECT_EQ(Post(Swap({0x3001, Key(1)}, uint64_t{1})), Mistake::kMisaligned);
  EXPECT_EQ(Post(SignalAdd({0x3004, Key(1)})), Mistake::kMisaligned);
  EXPECT_EQ(Post(Write({0x3001, Key(1)}, kHere)), Mistake::kNone) << "writes need not be";
}

TEST_F(Checked, NothingIsTouchedByAnEmptyMessage) {
  EXPECT_EQ(Post(Write({0x3100, Key(9)}, {0, 0, Key(9)})), Mistake::kNone);
  EXPECT_EQ(Post(Send({0, 0, Key(9)})), Mistake::kNone);
}

TEST_F(Checked, EachPartOfASequenceCounts) {
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd({0x5000, Key(5)}))), Mistake::kRemoteRights);
  EXPECT_EQ(Post(PutSignal({0x4000, Key(4)}, kHere, SignalAdd(kThere))), Mistake::kRemoteRights);
  EXPECT_EQ(Post(CountCompletions(WaitCq{1, 1}, {0x3001, Key(1)})), Mistake::kMisaligned);
}

TEST_F(Checked, SignalWordsAreInNoRelaxedRegion) {
  EXPECT_EQ(Post(SignalSet(kRelaxedThere, 1)), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(SignalAdd(kRelaxedThere)), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalSet(kRelaxedThere, 1))), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kThere, kHere, SignalAdd(kRelaxedThere))), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(CountCompletions(WaitCq{1, 1}, kRelaxedThere)), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(SignalSet(kThere, 1)), Mistake::kNone);
  EXPECT_EQ(Post(SignalSet({0x4000, Key(4)}, 1)), Mistake::kRemoteRights);
}

TEST_F(Checked, DataThatASignalTellsOfAreInNoRelaxedRegion) {
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, kHere, SignalSet(kThere, 1))), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, kHere, SignalAdd(kThere))), Mistake::kRelaxedOrdering);
  EXPECT_EQ(Post(PutSignal(kRelaxedThere, {}, SignalAdd(kThere))), Mistake::kNone) << "there are none";
}

TEST_F(Checked, DataAloneMayBeInARelaxedRegion) {
  EXPECT_EQ(Post(Write(kRelaxedThere, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(WriteImm(kRelaxedThere, kHere, {7})), Mistake::kNone);
  EXPECT_EQ(Post(WriteInline{kRelaxedThere, uint64_t{1}}), Mistake::kNone);
  EXPECT_EQ(Post(Read(kRelaxedThere, kHere)), Mistake::kNone);
  EXPECT_EQ(Post(FetchAdd(kRelaxedThere, uint64_t{1})), Mistake::kRelaxedOrdering) << "atomics want order";
}

TEST_F(Checked, BatchesCheckWhatIsAdded) {
  SendQueue<Cpu, Exclusive> queue(memory_.View());
  auto batch = queue.Begin(2);
  EXPECT_EQ(batch.Add(Write(kThere, {0x1000, 1, Key(9)})).status.mistake, Mistake::kUnknownLkey);
  EXPECT_TRUE(batch.Add(Write(kThere, kHere)).status.ok());
  EXPECT_TRUE(batch.Add(Write(kThere, kHere)).status.ok()) << "the slot of the refused one is free";
}

TEST_F(Checked, ReceivesAreHeldAgainstTheirQueuesTable) {
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
  EXPECT_EQ(queue.Post({0x1000, 1, Key(9)}).mistake, Mistake::kUnknownLkey);
  EXPECT_EQ(queue.Post({0x1000, 0x101, Key(1)}).mistake, Mistake::kLocalOutOfBounds);
  EXPECT_EQ(queue.Post(kReadOnly).mistake, Mistake::kLocalReadOnly) << "the NIC writes what arrives";
  EXPECT_EQ(queue.Post(kHere, kReadOnly).mistake, Mistake::kLocalReadOnly);
  EXPECT_TRUE(queue.Post(kHere, kHere).ok());
}

TEST_F(Checked, WithoutATableOnlyAlignmentCounts) {
  memory_.control.regions = nullptr;
  EXPECT_EQ(Post(Write({1, Key(9)}, {1, 1, Key(9)})), Mistake::kNone);
  EXPECT_EQ(Post(FetchAdd({4, Key(9)}, uint64_t{1})), Mistake::kMisaligned);
}

TEST_F(Checked, EmptyTableAllowsNothing) {
  const RegionTable none{nullptr, 0};
  memory_.control.regions = &none;
  EXPECT_EQ(Post(Write(kThere, kHere)), Mistake::kUnknownLkey);
  EXPECT_EQ(Post(WriteInline{kThere, uint64_t{1}}), Mistake::kUnknownRkey);
}

}  // namespace
}  // namespace warpverbs::device
