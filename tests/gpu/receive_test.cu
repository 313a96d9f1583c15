// Sends, and writes with immediate data, to receives that another block of the GPU posts.
#include "pair.hpp"
#include "warpverbs/device/receive_queue.hpp"

namespace warpverbs::gpu {
namespace {

using device::Exclusive;
using device::ReceiveQueue;
using device::SendQueue;

class Receives : public Placed {};
WARPVERBS_PLACED(Receives);

constexpr uint32_t kMessages = 500, kDepth = 16, kBytes = 96, kWords = kBytes / 8;

struct Job {
  QueueView sender;
  device::ReceiveQueueView receiver;
  uint64_t *source, *arrived;
  LocalMemory from;
  LocalMemory into;      ///< first of kDepth slots for messages in flight
  RemoteMemory written;  ///< first of kDepth slots for writes
};

struct Outcome {
  Status sender, receiver;
  uint32_t wrong = 0;  ///< messages with a wrong length, immediate or content
};

/// Returns a word of message n. All words of all messages differ.
__device__ uint64_t WordOf(uint64_t n, uint32_t word) { return (n + 1) << 32 | word; }

/// Sends messages of kBytes. Every third one is a write with immediate data to the second half.
template <class A>
__device__ void SendAll(const Job& job, Outcome* outcome) {
  SendQueue<A, Exclusive> queue(job.sender);
  for (uint64_t n = 0; n < kMessages && outcome->sender.ok(); ++n) {
    for (uint32_t i = 0; i < kWords; ++i) A::Store(job.source + i, WordOf(n, i));
    __threadfence_system();
    const mlx5::Be32 imm = A::ToBe32(static_cast<uint32_t>(n));
    const RemoteMemory written{job.written.addr + n % kDepth * kBytes, job.written.rkey};
    const Posted posted = n % 3 == 0   ? queue.Post(device::WriteImm(written, job.from, imm), Within<A>())
                          : n % 3 == 1 ? queue.Post(device::SendImm(job.from, imm), Within<A>())
                                       : queue.Post(device::Send(job.from), Within<A>());
    outcome->sender = posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
  }
}

template <class A>
__device__ void ReceiveAll(const Job& job, Outcome* outcome) {
  ReceiveQueue<A> queue(job.receiver);
  const auto post = [&](uint64_t n) {
    return queue.Post({job.into.addr + n % kDepth * kBytes, job.into.bytes, job.into.lkey});
  };
  outcome->receiver = {};
  for (uint32_t n = 0; n < kDepth && outcome->receiver.ok(); ++n) outcome->receiver = post(n);
  if (!outcome->receiver.ok()) return;
  queue.Submit();
  for (uint64_t n = 0; n < kMessages; ++n) {
    const device::Received received = queue.Poll(Within<A>());
    outcome->receiver = received.status;
    if (!received.status.ok()) break;
    const bool is_write = n % 3 == 0, has_imm = n % 3 != 2;
    const uint64_t* const words = job.arrived + (is_write ? 512 : 0) + n % kDepth * kWords;
    bool same = true;
    for (uint32_t i = 0; i < kWords; ++i) same &= A::Load(words + i) == WordOf(n, i);
    outcome->wrong += received.bytes != kBytes || received.is_write != is_write ||
                      received.has_imm != has_imm || (has_imm && A::ToBe32(received.imm.raw).raw != n) ||
                      !same;
    outcome->receiver = post(n);
    if (!outcome->receiver.ok()) break;
    queue.Submit();
  }
}

template <class A>
__global__ void Converse(Job job, Outcome* outcome) {
  blockIdx.x == 0 ? ReceiveAll<A>(job, outcome) : SendAll<A>(job, outcome);
}

TEST_P(Receives, TakeEveryMessageInOrder) {
  const Pair pair({.placement = GetParam(), .b = {.receive_depth = kDepth}});
  const Mapped<Outcome> outcome(pair.gpu_a);
  const Job job{pair.a.View(),           pair.b.ReceiveView(),         pair.source.data(),
                pair.target.data(),      pair.source.Local(0, kBytes), pair.target.Local(0, kBytes),
                pair.target.Remote(4096)};
  WithArch(pair.scope(),
           [&](auto arch) { RunKernel(pair.gpu_a, 2, 1, Converse<decltype(arch)>, job, outcome.get()); });
  EXPECT_TRUE(IsOk(outcome->sender));
  EXPECT_TRUE(IsOk(outcome->receiver));
  EXPECT_EQ(outcome->wrong, 0U);
}

}  // namespace
}  // namespace warpverbs::gpu
