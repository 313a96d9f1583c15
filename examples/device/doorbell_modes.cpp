// Doorbell modes: the kernel rings the doorbell, or the host does. The code of the kernel is the same.
#include "common/example.hpp"
#include "warpverbs/host/doorbell_thread.hpp"

using namespace warpverbs;

template <class A>
WARPVERBS_DEVICE device::Status PutAll(const device::QueueView& view, const device::RemoteMemory& to,
                                       const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status;
  for (uint64_t at = 0; at < from.bytes && status.ok(); at += 8) {
    status = queue.Post(device::Write({to.addr + at, to.rkey}, {from.addr + at, 8, from.lkey}), limit).status;
  }
  if (status.ok()) status = queue.Flush(limit);
  return status;
}

// kGpu: the GPU stores to the NIC's register. kHostProxy: the GPU cannot, so a host thread rings for it.
// kHostPosts: the NIC cannot read the queue's memory either, so the host thread copies the entries too. The
// default, kAuto, probes whether the GPU reaches the register.
int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches doorbell modes: writes with each of the three.", [] {
    const host::Device device;
    host::DoorbellThread thread;  // serves any number of endpoints
    for (const auto mode :
         {host::DoorbellMode::kGpu, host::DoorbellMode::kHostProxy, host::DoorbellMode::kHostPosts}) {
      const Pair pair(device, {.depth = 16, .doorbell = mode, .doorbell_thread = &thread});
      Memory from(device, 500, uint64_t{42}), to(device, 500, uint64_t{0});
      CheckOk(PutAll<arch::Cpu>(pair.here.View(), to.Remote(), from.Local()), "the kernel");
      Check(to == from, "every write arrived");
      std::printf("500 writes arrived: %s.\n", host::ToString(pair.here.doorbell_mode()));
    }
    std::puts("The same kernel wrote in all three doorbell modes.");
  });
}
