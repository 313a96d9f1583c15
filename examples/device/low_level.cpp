// The low level: the kernel keeps the indices, rings the doorbell and takes completions. SendQueue uses it.
#include "common/example.hpp"
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

using namespace warpverbs;

constexpr uint32_t kWrites = 8;

// Posts eight writes with one doorbell. The order is fixed: entries, doorbell record, doorbell.
template <class A>
WARPVERBS_DEVICE void PutEight(const device::QueueView& view, const device::RemoteMemory& to,
                               const device::LocalMemory& from) {
  const device::RawSendQueue<A> ring(view);
  mlx5::Be64 doorbell{};
  for (uint32_t index = 0; index < kWrites; ++index) {
    const device::RemoteMemory word_to{to.addr + index * 8, to.rkey};
    doorbell = ring.PostWrite(index, word_to, {from.addr + index * 8, 8, from.lkey});
  }
  ring.UpdateSendDbrRecord(kWrites);
  ring.RingDoorbell(doorbell);
}

// Each completion has the index of its write. The ring's doorbell record tells the NIC which entries are
// free.
template <class A>
WARPVERBS_DEVICE device::Status TakeEight(const device::CqView& view, uint32_t* qpn) {
  device::CompletionRing<A> completions(view);
  for (uint32_t index = 0; index < kWrites; ++index) {
    const device::Status status = completions.PollCq(TenSeconds<A>());
    if (!status.ok()) return status;
    if (status.wqe_index != index) return {.code = device::Code::kInvalid};
    *qpn = completions.Last().qpn;
  }
  completions.UpdateCqDbrRecord();
  return {};
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches the low level: posts and polls with explicit indices.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory from(device, kWrites, uint64_t{42}), to(device, kWrites, uint64_t{0});
    uint32_t qpn = 0;
    PutEight<arch::Cpu>(pair.here.View(), to.Remote(), from.Local());
    CheckOk(TakeEight<arch::Cpu>(pair.here.CompletionView(), &qpn), "polling");
    Check(to == from && qpn == pair.here.qpn(), "eight completions of this queue for eight writes");
    std::puts("8 writes, one doorbell, 8 completions.");
  });
}
