// Flush() waits for everything posted. Completions cost time, so only some writes ask for one here.
#include "common/example.hpp"

using namespace warpverbs;

constexpr uint32_t kWords = 1000, kDepth = 16;

// A write with kCqeOnError is done when a later write reports success. Only completions free slots, so at
// least one write in `depth` must ask for one, and so must the last.
template <class A>
WARPVERBS_DEVICE device::Status PutAll(const device::QueueView& view, const device::RemoteMemory& to,
                                       const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status;
  for (uint32_t i = 0; i < kWords && status.ok(); ++i) {
    const bool report = i % (kDepth / 2) == 0 || i == kWords - 1;
    const device::RemoteMemory word_to{to.addr + i * 8, to.rkey};
    const device::LocalMemory word_from{from.addr + i * 8, 8, from.lkey};
    status =
        queue.Post(device::Write(word_to, word_from), limit, report ? mlx5::kCqeAlways : mlx5::kCqeOnError)
            .status;
  }
  if (status.ok()) status = queue.Flush(limit);
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches Flush(): posts a thousand writes with few completions.", [] {
    const host::Device device;
    const Pair pair(device, {.depth = kDepth});
    Memory<uint64_t> from(device, kWords), to(device, kWords);
    for (uint64_t i = 0; i < kWords; ++i) from[i] = i + 1;
    CheckOk(PutAll<arch::Cpu>(pair.here.View(), to.Remote(), from.Local()), "the kernel");
    Check(to == from, "every write arrived");
    std::puts("1000 writes arrived with 126 completions.");
  });
}
