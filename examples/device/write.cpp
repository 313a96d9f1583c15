// The first lesson: a kernel writes its memory to the peer's, and waits until it has arrived.
#include "common/example.hpp"

using namespace warpverbs;

// A SendQueue keeps the state of the queue in registers. Exclusive: no other thread posts meanwhile. A post
// returns a ticket. Once the ticket is done, the peer's memory has been written and the local memory may
// change again. On a GPU use arch::CudaSystem if the queues are in host memory: Endpoint::ReleaseScope()
// says which arch a queue needs.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + 10'000'000'000};
  const device::Posted posted = queue.Post(device::Write(to, from), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches a write: a kernel writes local memory to the peer and waits for it.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory from(device, 128, uint64_t{42}), to(device, 128, uint64_t{0});
    CheckOk(Put<arch::Cpu>(pair.here.View(), to.Remote(), from.Local()), "the first kernel");
    from[3] = 43;  // the second kernel continues at the end of the queue
    CheckOk(Put<arch::Cpu>(pair.here.View(), to.Remote(3), from.Local(3, 1)), "the second kernel");
    Check(to == from, "the peer has the written words");
    std::puts("Two kernels wrote 1024 and 8 bytes.");
  });
}
