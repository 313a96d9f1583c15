// A read: fetches memory of the peer, without the peer's processor.
#include "common/example.hpp"

using namespace warpverbs;

// When the ticket is done, the data are in local memory and visible to the thread that waited.
template <class A>
WARPVERBS_DEVICE device::Status Get(const device::QueueView& view, const device::RemoteMemory& from,
                                    const device::LocalMemory& to, uint64_t* sum) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Read(from, to));
  if (!status.ok()) return status;
  const auto* const words = reinterpret_cast<const uint64_t*>(to.addr);
  for (uint64_t i = 0; i < to.bytes / sizeof(uint64_t); ++i) *sum += words[i];
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches a read: fetches memory of the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<uint64_t> from(device, 100), to(device, 100);
    for (uint64_t i = 0; i < 100; ++i) from[i] = i + 1;
    uint64_t sum = 0;
    CheckOk(Get<arch::Cpu>(pair.here.View(), from.Remote(), to.Local(), &sum), "the read");
    Check(to == from && sum == 5050, "the kernel has read what the peer has");
    std::puts("Read 800 bytes of the peer; their sum is 5050.");
  });
}
