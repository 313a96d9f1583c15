// Who rings the doorbell: the kernel, or the host for it. The kernel's code is the same, and so is its
// result.
#include "common/example.hpp"

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
  queue.Save();
  return status;
}

// Where a GPU can store to the NIC's register, it rings. Where it cannot, a thread of the host rings for it.
// Where the NIC cannot even read the queue's memory, that thread copies the entries too. kAuto, the default,
// finds out whether the register can be reached.
int main(int argc, char** argv) {
  return Run(argc, argv, "Writes with each of the three ways to ring a doorbell.", [] {
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
    std::puts("The same kernel wrote by all three doorbell modes.");
  });
}
