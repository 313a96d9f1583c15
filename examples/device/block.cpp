// A block posts together. Each thread may send data that another thread of the block has written, without a
// barrier of its own.
#include "common/example.hpp"
#include "warpverbs/arch/cpu_block.hpp"

using namespace warpverbs;

constexpr uint32_t kThreads = 128;
constexpr arch::LaneMask kAllLanes = 0xffffffff;

// Each thread writes a word, and then posts the word of a thread in another warp. The post is a barrier of
// the block, so that word is complete. After the barrier each warp posts on its own, so the queue is shared.
template <class A>
WARPVERBS_DEVICE void PutWord(const device::QueueView& view, uint32_t thread, const device::RemoteMemory& to,
                              const device::LocalMemory& from, device::Status* statuses) {
  reinterpret_cast<uint64_t*>(from.addr)[thread] = thread + 1;
  device::SendQueue<A, device::Shared, device::Block> queue(view, device::Block(kAllLanes));
  const device::WaitLimit limit = TenSeconds<A>();
  const uint32_t other = (thread + kThreads / 2) % kThreads;
  const device::RemoteMemory word_to{to.addr + other * 8, to.rkey};
  const device::LocalMemory word_from{from.addr + other * 8, 8, from.lkey};
  const device::Posted posted = queue.Post(device::Write(word_to, word_from), limit);
  statuses[thread] = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches posts of a block: 128 threads send each other's words.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<uint64_t> from(device, kThreads), to(device, kThreads);
    device::Status statuses[kThreads];
    arch::cpu::RunBlock(kThreads, [&](uint32_t thread) {
      PutWord<arch::Cpu>(pair.here.View(), thread, to.Remote(), from.Local(), statuses);
    });
    for (const device::Status& status : statuses) CheckOk(status, "each thread's write");
    for (uint64_t i = 0; i < kThreads; ++i) Check(to[i] == i + 1, "each thread's word has arrived");
    std::puts("128 threads of 4 warps sent each other's words.");
  });
}
