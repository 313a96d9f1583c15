// A warp posts together: 32 lanes bring an operation each, and take one reservation, one release, one
// doorbell.
#include "common/example.hpp"
#include "warpverbs/arch/cpu_block.hpp"

using namespace warpverbs;

constexpr uint32_t kLanes = 32;
constexpr arch::LaneMask kAllLanes = 0xffffffff;

// All lanes that the mask names make every call, each with its own operation, and each gets its own ticket.
// The lanes may share a queue that is exclusive to their warp.
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
  queue.Save();
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Posts 32 writes by one call of a warp.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<uint64_t> from(device, kLanes), to(device, kLanes);
    for (uint64_t i = 0; i < kLanes; ++i) from[i] = i;
    device::Status statuses[kLanes];
    arch::cpu::RunBlock(kLanes, [&](uint32_t) {  // a thread of the CPU for each lane
      PutWord<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), statuses);
    });
    for (const device::Status& status : statuses) CheckOk(status, "each lane's write");
    for (uint64_t i = 0; i < kLanes; ++i) Check(to[i] == kLanes - 1 - i, "each lane's word is in its place");
    std::puts("32 lanes mirrored 32 words by one doorbell.");
  });
}
