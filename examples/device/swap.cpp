// Swap: replaces a word of the peer and fetches the old value in one step. Here: a mailbox of one word.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

// Without `fetched` a swap is a plain atomic store.
template <class A>
WARPVERBS_DEVICE device::Status Exchange(const device::QueueView& view, const device::RemoteMemory& box,
                                         uint64_t letter, const device::LocalMemory& fetched) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Swap(box, letter, fetched));
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches swaps: swaps a word of the peer, and stores one.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory box(device, 1, uint64_t{11}), fetched(device, 1, uint64_t{0});
    CheckOk(Exchange<arch::Cpu>(pair.here.View(), box.Remote(), 22, fetched.Local()), "the swap");
    Check(fetched[0] == 11 && box[0] == 22, "11 came out and 22 is in");
    CheckOk(Exchange<arch::Cpu>(pair.here.View(), box.Remote(), 33, {}), "the store");
    Check(fetched[0] == 11 && box[0] == 33, "33 is in, and nothing came out");
    std::puts("Swapped 11 for 22, then stored 33.");
  });
}
