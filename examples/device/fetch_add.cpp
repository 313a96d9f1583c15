// Fetch and add: any number of posters draw numbers from one counter of the peer, each number once.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

// The old value arrives in `fetched`. Without `fetched` the operation only adds.
template <class A>
WARPVERBS_DEVICE device::Status Draw(const device::QueueView& view, const device::RemoteMemory& counter,
                                     const device::LocalMemory& fetched, uint64_t (&numbers)[3]) {
  device::SendQueue<A, device::Exclusive> queue(view);
  device::Status status;
  for (uint64_t& number : numbers) {
    status = PostAndWait<A>(queue, device::FetchAdd(counter, uint64_t{1}, fetched));
    if (!status.ok()) break;
    number = device::Fetched<A>(*reinterpret_cast<const uint64_t*>(fetched.addr));
  }
  if (status.ok()) status = PostAndWait<A>(queue, device::FetchAdd(counter, uint64_t{100}));
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches fetch and add: draws numbers from a counter of the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory counter(device, 1, uint64_t{1000}), fetched(device, 1, uint64_t{0});
    uint64_t numbers[3] = {};
    CheckOk(Draw<arch::Cpu>(pair.here.View(), counter.Remote(), fetched.Local(), numbers), "the kernel");
    Check(numbers[0] == 1000 && numbers[1] == 1001 && numbers[2] == 1002, "each number was drawn once");
    Check(counter[0] == 1103, "the counter counted all");
    std::puts("Drew 1000, 1001 and 1002; the counter is at 1103.");
  });
}
