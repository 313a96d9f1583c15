// A warp posts together: 32 lanes post one operation each, with one reservation, one release and one
// doorbell.
#include "common/example.hpp"
#include "warpverbs/arch/cpu_block.hpp"

using namespace warpverbs;

constexpr uint32_t kLanes = 32;
constexpr arch::LaneMask kAllLanes = 0xffffffff;

// All lanes in the mask make every call together. Each has its own operation and gets its own ticket. The
// queue is exclusive to the warp.
template <class A>
WARPVERBS_DEVICE void PutWord(const device::QueueView& view, const device::RemoteMemory& to,
                              const device::LocalMemory& from, device::Status* statuses) {
  device::SendQueue<A, device::Exclusive, device::Warp> queue(view, device::Warp(kAllLanes));
  const device::WaitLimit limit = TenSeconds<A>();
  const uint32_t lane = A::Lane(), mirrored = kLanes - 1 - lane;
  const device::RemoteMemory word_to{to.addr + mirrored * 8, to.rkey};
  const device::LocalMemory word_from{from.addr + lane * 8, 8, from.lkey};
  const device::Posted posted = queue.Post(device::Write(word_to, word_from), limit);
  statuses[lane] = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches posts of a warp: 32 lanes post 32 writes by one call.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<uint64_t> from(device, kLanes), to(device, kLanes);
    for (uint64_t i = 0; i < kLanes; ++i) from[i] = i;
    device::Status statuses[kLanes];
    arch::cpu::RunBlock(kLanes, [&](uint32_t) {  // one CPU thread for each lane
      PutWord<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), statuses);
    });
    for (const device::Status& status : statuses) CheckOk(status, "each lane's write");
    for (uint64_t i = 0; i < kLanes; ++i) Check(to[i] == kLanes - 1 - i, "each lane's word is in its place");
    std::puts("32 lanes mirrored 32 words with one doorbell.");
  });
}
