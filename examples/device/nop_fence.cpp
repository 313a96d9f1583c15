// Fence and NOP: copies within the peer's memory by a read and a write, without a wait between them.
#include "common/example.hpp"

using namespace warpverbs;

// A write does not wait for an earlier read, so it might send the old contents of the buffer. After a fence
// it waits. The NOP only completes, for all four operations: the others report only errors.
template <class A>
WARPVERBS_DEVICE device::Status Copy(const device::QueueView& view, const device::RemoteMemory& from,
                                     const device::RemoteMemory& to, const device::LocalMemory& buffer) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status = queue.Post(device::Read(from, buffer), limit, mlx5::kCqeOnError).status;
  if (status.ok()) status = queue.Post(device::Fence{}, limit, mlx5::kCqeOnError).status;
  if (status.ok()) status = queue.Post(device::Write(to, buffer), limit, mlx5::kCqeOnError).status;
  if (status.ok()) status = PostAndWait<A>(queue, device::Nop());
  return status;
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches fences: copies within the peer's memory by read, fence, write and NOP.", [] {
        const host::Device device;
        const Pair pair(device);
        Memory from(device, 512, uint64_t{42}), to(device, 512, uint64_t{0}),
            buffer(device, 512, uint64_t{0});
        CheckOk(Copy<arch::Cpu>(pair.here.View(), from.Remote(), to.Remote(), buffer.Local()), "the copy");
        Check(to == from, "the peer has a copy of its own memory");
        std::puts("Copied 4096 bytes within the peer's memory.");
      });
}
