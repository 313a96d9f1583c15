// A shared queue: any number of threads post to it at once, each through its own SendQueue.
#include "common/example.hpp"

using namespace warpverbs;

constexpr uint32_t kThreads = 4, kWords = 1000;

// Each thread writes every fourth word. The threads share 16 slots, so a post may wait for one. Each thread
// waits only for its last post, which is done after all its earlier posts.
template <class A>
WARPVERBS_DEVICE device::Status PutMine(const device::QueueView& view, uint32_t thread,
                                        const device::RemoteMemory& to, const device::LocalMemory& from) {
  device::SendQueue<A, device::Shared> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Posted last;
  for (uint32_t i = thread; i < kWords; i += kThreads) {
    const device::RemoteMemory word_to{to.addr + i * 8, to.rkey};
    const device::LocalMemory word_from{from.addr + i * 8, 8, from.lkey};
    last = queue.Post(device::Write(word_to, word_from), limit);
    if (!last.status.ok()) return last.status;
  }
  return queue.Wait(last.ticket, limit);
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches shared queues: posts to one queue from four threads.", [] {
    const host::Device device;
    const Pair pair(device, {.depth = 16});
    Memory<uint64_t> from(device, kWords), to(device, kWords);
    for (uint64_t i = 0; i < kWords; ++i) from[i] = i + 1;
    device::Status status[kThreads];
    {
      std::vector<std::jthread> threads;
      for (uint32_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
          status[thread] = PutMine<arch::Cpu>(pair.here.View(), thread, to.Remote(), from.Local());
        });
      }
    }
    for (const device::Status& each : status) CheckOk(each, "each thread");
    Check(to == from, "every word arrived in its place");
    std::puts("4 threads wrote 1000 words through a queue of 16 slots.");
  });
}
