// Every operation, posted by a kernel. The GPU writes and checks the data.
#include "pair.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/signal.hpp"

namespace warpverbs::gpu {
namespace {

using device::Exclusive;
using device::SendQueue;
using device::Thread;

class Operations : public Placed {};
WARPVERBS_PLACED(Operations);

/// Memory of both sides, as pointers for the GPU and with keys for the NIC. Kernels get it by value.
struct Sides {
  QueueView queue;
  uint8_t *source, *target;
  LocalMemory local;  ///< the whole source
  RemoteMemory remote;

  __device__ LocalMemory Local(uint64_t offset, uint64_t bytes) const {
    return {local.addr + offset, bytes, local.lkey};
  }
  __device__ RemoteMemory Remote(uint64_t offset) const { return {remote.addr + offset, remote.rkey}; }
};

Sides SidesOf(const Pair& pair) {
  return {pair.a.View(), pair.source.data<uint8_t>(), pair.target.data<uint8_t>(),
          pair.source.Local(0, 1 << 20), pair.target.Remote(0)};
}

struct Outcome {
  Status status;
  uint64_t wrong = 0;  ///< wrong bytes or words
};

template <class A, class Queue, class Operation>
__device__ Status PostAndWait(Queue& queue, const Operation& operation) {
  const Posted posted = queue.Post(operation, Within<A>());
  return posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
}

/// Moves a message of each size at each offset by `Put`, and checks it.
template <class A, class Put>
__global__ void MoveMessages(Sides sides, Put put, Outcome* outcome) {
  constexpr uint64_t kSizes[] = {1, 3, 8, 64, 100, 4096, 65537, 1 << 18};
  constexpr uint64_t kOffsets[] = {0, 1, 13};
  SendQueue<A, Exclusive> queue(sides.queue);
  uint64_t round = 0;
  for (const uint64_t bytes : kSizes) {
    for (const uint64_t offset : kOffsets) {
      ++round;
      uint8_t* const from = put.reads ? sides.target : sides.source;
      uint8_t* const to = put.reads ? sides.source : sides.target;
      for (uint64_t i = threadIdx.x; i < bytes + 2; i += blockDim.x) {
        from[offset + i] = ByteOf(round, i);
        to[offset + i] = 0;
      }
      __syncthreads();
      if (threadIdx.x == 0) {
        __threadfence_system();
        outcome->status = put.template Do<A>(queue, sides, offset, bytes);
      }
      __syncthreads();
      if (!outcome->status.ok()) return;
      uint64_t wrong = 0;
      for (uint64_t i = threadIdx.x; i < bytes + 2; i += blockDim.x) {
        const uint8_t expected = i < bytes ? ByteOf(round, i) : 0;
        wrong += *const_cast<volatile uint8_t*>(to + offset + i) != expected;
      }
      if (wrong != 0) atomicAdd(reinterpret_cast<unsigned long long*>(&outcome->wrong), wrong);
      __syncthreads();
    }
  }
}

struct ByWrite {
  static constexpr bool reads = false;
  template <class A, class Queue>
  __device__ Status Do(Queue& queue, const Sides& sides, uint64_t offset, uint64_t bytes) const {
    return PostAndWait<A>(queue, device::Write(sides.Remote(offset), sides.Local(offset, bytes)));
  }
};

struct ByTwoEntries {
  static constexpr bool reads = false;
  template <class A, class Queue>
  __device__ Status Do(Queue& queue, const Sides& sides, uint64_t offset, uint64_t bytes) const {
    const uint64_t half = bytes / 2;
    return PostAndWait<A>(queue, device::Write(sides.Remote(offset), sides.Local(offset, half),
                                               sides.Local(offset + half, bytes - half)));
  }
};

struct ByRead {
  static constexpr bool reads = true;
  template <class A, class Queue>
  __device__ Status Do(Queue& queue, const Sides& sides, uint64_t offset, uint64_t bytes) const {
    return PostAndWait<A>(queue, device::Read(sides.Remote(offset), sides.Local(offset, bytes)));
  }
};

/// Writes a message in two halves, by one doorbell.
struct ByBatch {
  static constexpr bool reads = false;
  template <class A, class Queue>
  __device__ Status Do(Queue& queue, const Sides& sides, uint64_t offset, uint64_t bytes) const {
    const uint64_t half = bytes / 2;
    auto batch = queue.Begin(4, Within<A>());
    static_cast<void>(batch.Add(device::Nop(), 0));
    static_cast<void>(batch.Add(device::Write(sides.Remote(offset), sides.Local(offset, half)), 0));
    static_cast<void>(batch.Add(device::Fence{}, 0));
    static_cast<void>(
        batch.Add(device::Write(sides.Remote(offset + half), sides.Local(offset + half, bytes - half))));
    const Posted posted = batch.Submit();
    return posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
  }
};

/// Writes the data and then a signal, for which the same GPU waits.
struct BySignal {
  static constexpr bool reads = false;
  template <class A, class Queue>
  __device__ Status Do(Queue& queue, const Sides& sides, uint64_t offset, uint64_t bytes) const {
    constexpr uint64_t kWord = 1 << 19;
    const auto* const word = reinterpret_cast<const uint64_t*>(sides.target + kWord);
    const uint64_t next = A::Load(word) + 1;
    const auto put = device::PutSignal(sides.Remote(offset), sides.Local(offset, bytes),
                                       device::SignalAdd(sides.Remote(kWord)));
    const Posted posted = queue.Post(put, Within<A>());
    if (!posted.status.ok()) return posted.status;
    const Status status = device::WaitSignal<A>(word, device::Compare::kGreaterOrEqual, next, Within<A>());
    return status.ok() ? queue.Wait(posted.ticket, Within<A>()) : status;
  }
};

template <class Put>
void ExpectMoves(Placement placement) {
  const Pair pair({.placement = placement});
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, 1, 256, MoveMessages<decltype(arch), Put>, SidesOf(pair), Put{}, outcome.get());
  });
  EXPECT_TRUE(IsOk(outcome->status));
  EXPECT_EQ(outcome->wrong, 0U);
}

TEST_P(Operations, WriteMovesEveryByteAndNoMore) { ExpectMoves<ByWrite>(GetParam()); }
TEST_P(Operations, WriteGathersTwoEntries) { ExpectMoves<ByTwoEntries>(GetParam()); }
TEST_P(Operations, ReadFetchesEveryByteAndNoMore) { ExpectMoves<ByRead>(GetParam()); }
TEST_P(Operations, BatchesArriveCompletelyAndInOrder) { ExpectMoves<ByBatch>(GetParam()); }
TEST_P(Operations, SignalFollowsItsData) { ExpectMoves<BySignal>(GetParam()); }

/// Runs each atomic on its own word, and compares the fetched and the new value with the expected ones.
template <class A>
__global__ void Atomics(Sides sides, Outcome* outcome) {
  SendQueue<A, Exclusive> queue(sides.queue);
  auto* const target = reinterpret_cast<uint64_t*>(sides.target);
  auto* const fetched = reinterpret_cast<uint64_t*>(sides.source);
  uint64_t index = 0;
  const auto expect = [&](const auto& operation, uint64_t before, uint64_t after) {
    if (outcome->status.ok()) outcome->status = PostAndWait<A>(queue, operation);
    outcome->wrong += A::Load(&target[index]) != after || A::Load(&fetched[index]) != before;
    ++index;
  };
  const auto next = [&](uint64_t before) {
    A::Store(&target[index], before);
    __threadfence_system();
  };
  const auto word = [&] { return sides.Remote(8 * index); };
  const auto old = [&] { return sides.Local(8 * index, 8); };
  constexpr uint64_t kOld = 0x1122334455667788, kNew = 0xffeeddccbbaa9988;

  next(kOld);
  expect(device::FetchAdd<uint64_t>(word(), 5, old()), kOld, kOld + 5);
  next(kOld);
  expect(device::CompareSwap<uint64_t>(word(), {.compare = kOld, .swap = kNew}, old()), kOld, kNew);
  next(kOld);
  expect(device::CompareSwap<uint64_t>(word(), {.compare = kNew, .swap = kNew}, old()), kOld, kOld);
  next(kOld);
  expect(device::Swap<uint64_t>(word(), kNew, old()), kOld, kNew);
  next(kOld);
  expect(device::FetchAnd<uint64_t>(word(), kNew, old()), kOld, kOld & kNew);
  next(kOld);
  expect(device::FetchOr<uint64_t>(word(), kNew, old()), kOld, kOld | kNew);
  next(kOld);
  expect(device::FetchXor<uint64_t>(word(), kNew, old()), kOld, kOld ^ kNew);
  next(0xffff);
  expect(device::MaskedFetchAdd<uint64_t>(word(), 1, 0x8000, old()), 0xffff, 0);
  next(kOld);
  expect(device::MaskedCompareSwap<uint64_t>(word(), {kOld, kNew, 0xff, 0xff00}, old()), kOld,
         (kOld & ~uint64_t{0xff00}) | (kNew & 0xff00));
}

/// Does the same with 4 bytes, whose fetched value stays in wire order.
template <class A>
__global__ void Atomics4(Sides sides, Outcome* outcome) {
  SendQueue<A, Exclusive> queue(sides.queue);
  auto* const target = reinterpret_cast<uint32_t*>(sides.target);
  auto* const fetched = reinterpret_cast<uint32_t*>(sides.source);
  uint32_t index = 0;
  const auto expect = [&](const auto& operation, uint32_t before, uint32_t after) {
    if (outcome->status.ok()) outcome->status = PostAndWait<A>(queue, operation);
    const uint32_t seen = A::Load32(&fetched[index]);
    outcome->wrong += A::Load32(&target[index]) != after || device::Fetched<A>(seen) != before;
    ++index;
  };
  const auto next = [&](uint32_t before) {
    *const_cast<volatile uint32_t*>(&target[index]) = before;
    __threadfence_system();
  };
  const auto word = [&] { return sides.Remote(4 * index); };
  const auto old = [&] { return sides.Local(4 * index, 4); };
  next(40);
  expect(device::FetchAdd<uint32_t>(word(), 2, old()), 40, 42);
  next(7);
  expect(device::CompareSwap<uint32_t>(word(), {.compare = 7, .swap = 9}, old()), 7, 9);
  next(0xf0);
  expect(device::Swap<uint32_t>(word(), 1, old()), 0xf0, 1);
  next(0xf0);
  expect(device::FetchOr<uint32_t>(word(), 0x0f, old()), 0xf0, 0xff);
  next(0xf0);
  expect(device::FetchXor<uint32_t>(word(), 0xff, old()), 0xf0, 0x0f);
}

TEST_P(Operations, AtomicsOf8BytesChangeAndFetch) {
  const Pair pair({.placement = GetParam()});
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, 1, 1, Atomics<decltype(arch)>, SidesOf(pair), outcome.get());
  });
  EXPECT_TRUE(IsOk(outcome->status));
  EXPECT_EQ(outcome->wrong, 0U);
}

TEST_P(Operations, AtomicsOf4BytesChangeAndFetch) {
  const Pair pair({.placement = GetParam()});
  if ((pair.device().capabilities().atomic_sizes & 4) == 0)
    GTEST_SKIP() << "the device has no atomics of 4 bytes";
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, 1, 1, Atomics4<decltype(arch)>, SidesOf(pair), outcome.get());
  });
  EXPECT_TRUE(IsOk(outcome->status));
  EXPECT_EQ(outcome->wrong, 0U);
}

/// Runs inline writes, and operations that move no data.
template <class A>
__global__ void InlineAndEmpty(Sides sides, uint32_t cqn, Outcome* outcome) {
  struct Bytes {
    uint8_t bytes[28];
  };
  SendQueue<A, Exclusive> queue(sides.queue);
  Bytes value;
  for (uint32_t i = 0; i < sizeof value; ++i) value.bytes[i] = ByteOf(1, i);
  const auto all = [&](const auto& operation) {
    if (outcome->status.ok()) outcome->status = PostAndWait<A>(queue, operation);
  };
  all(device::WriteInline{sides.Remote(0), value});
  all(device::WriteInline{sides.Remote(64), uint64_t{0x1122334455667788}});
  all(device::WriteInline{sides.Remote(72), uint8_t{0x99}});
  all(device::Write(sides.Remote(128), sides.Local(0, 0)));
  all(device::Dump{sides.Local(0, 8)});
  all(device::WaitCq{cqn, 1});  // the first completion arrived long ago
  for (uint32_t i = 0; i < sizeof value; ++i)
    outcome->wrong += *const_cast<volatile uint8_t*>(sides.target + i) != ByteOf(1, i);
  outcome->wrong += A::Load(reinterpret_cast<uint64_t*>(sides.target + 64)) != 0x1122334455667788;
  outcome->wrong += *const_cast<volatile uint8_t*>(sides.target + 72) != 0x99;
}

TEST_P(Operations, InlineValuesArriveAndEmptyOperationsComplete) {
  const Pair pair({.placement = GetParam(), .a = {.wait_on_cq = true}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  WithArch(pair.scope(), [&](auto arch) {
    RunKernel(pair.gpu_a, 1, 1, InlineAndEmpty<decltype(arch)>, SidesOf(pair), pair.a.send_cqn(),
              outcome.get());
  });
  EXPECT_TRUE(IsOk(outcome->status));
  EXPECT_EQ(outcome->wrong, 0U);
}

}  // namespace
}  // namespace warpverbs::gpu
