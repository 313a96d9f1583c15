// Counting completions without a polling thread: a second queue waits for the first one's completion queue,
// and then increments a counter in local memory.
#include "common/example.hpp"
#include "warpverbs/device/signal.hpp"

using namespace warpverbs;

constexpr uint32_t kWrites = 4;

// The counting queue is connected to itself, so its peer's memory is local. It is told to wait before there
// are completions.
template <class A>
WARPVERBS_DEVICE device::Status PutAndCount(const device::QueueView& view, const device::QueueView& counting,
                                            const device::WaitCq& completions,
                                            const device::RemoteMemory& counter,
                                            const device::RemoteMemory& to, const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> counter_queue(counting), queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status = counter_queue.Post(device::CountCompletions(completions, counter), limit).status;
  for (uint32_t i = 0; i < kWrites && status.ok(); ++i) {
    status = queue.Post(device::Write(to, from), limit).status;
  }
  if (!status.ok()) return status;
  const auto* const word = reinterpret_cast<const uint64_t*>(counter.addr);
  return device::WaitSignal<A>(word, device::Compare::kGreaterOrEqual, 1, limit);
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches WAIT: the NIC counts completions into a word of local memory.", [] {
    const host::Device device;
    const Pair pair(device);
    host::Endpoint counting(device, {.wait_on_cq = true});
    counting.Connect(counting.Info());
    Memory counter(device, 1, uint64_t{0}), from(device, 64, uint64_t{42}), to(device, 64, uint64_t{0});
    CheckOk(PutAndCount<arch::Cpu>(pair.here.View(), counting.View(), {pair.here.send_cqn(), kWrites},
                                   counter.Remote(), to.Remote(), from.Local()),
            "the kernel");
    Check(to == from && counter[0] == 1, "the counter was incremented once, after the writes");
    std::printf("The NIC incremented a counter after %u completions.\n", kWrites);
  });
}
