// One completion ring for several queues: a thread that waits for one queue delivers completions for all.
#include "common/example.hpp"
#include "warpverbs/host/shared_completions.hpp"

using namespace warpverbs;

constexpr uint32_t kQueues = 3, kWrites = 100;

// Posts to every queue in turn, and waits for each at the end.
template <class A>
WARPVERBS_DEVICE device::Status PutToAll(const device::QueueView* views, const device::RemoteMemory* to,
                                         const device::LocalMemory& word) {
  using Queue = device::SendQueue<A, device::Exclusive>;
  Queue queues[kQueues] = {Queue(views[0]), Queue(views[1]), Queue(views[2])};
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status;
  for (uint32_t i = 0; i < kQueues * kWrites && status.ok(); ++i) {
    const device::RemoteMemory& start = to[i % kQueues];
    const device::RemoteMemory place{start.addr + i / kQueues * 8, start.rkey};
    status = queues[i % kQueues].Post(device::Write(place, word), limit).status;
  }
  for (Queue& queue : queues) {
    if (status.ok()) status = queue.Flush(limit);
  }
  return status;
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches shared completions: writes through three queues with one completion ring.", [] {
        const host::Device device;
        host::SharedCompletions ring(device, {.depth = 64, .max_queues = kQueues});
        const host::EndpointConfig config{.depth = 16, .completions = &ring};
        const Pair first(device, config), second(device, config), third(device, config);
        Memory word(device, 1, uint64_t{42}), to(device, kQueues * kWrites, uint64_t{0});
        const device::QueueView views[] = {first.here.View(), second.here.View(), third.here.View()};
        const device::RemoteMemory places[] = {to.Remote(0), to.Remote(kWrites), to.Remote(2 * kWrites)};
        CheckOk(PutToAll<arch::Cpu>(views, places, word.Local()), "the kernel");
        for (size_t i = 0; i < kQueues * kWrites; ++i) Check(to[i] == 42, "every write arrived");
        std::puts("3 queues completed 300 writes on one ring.");
      });
}
