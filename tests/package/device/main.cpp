// A user's kernel: it needs the device headers and nothing else.
#include <array>
#include <cstdio>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

using namespace warpverbs::device;

// As in README.md.
template <class A>  // arch::Cuda, arch::CudaSystem, arch::Hip or arch::Cpu
WARPVERBS_DEVICE Status WriteToPeer(const QueueView& view, RemoteMemory to, LocalMemory from) {
  SendQueue<A, Exclusive> queue(view);
  const Posted put = queue.Post(Write(to, from));  // writes the work queue entry, rings the doorbell
  if (!put.status.ok()) return put.status;  // full, or the queue pair has failed
  return queue.Wait(put.ticket, {.deadline_ns = A::NowNs() + 1'000'000});
}

int main() {
  std::array<warpverbs::mlx5::Wqebb, 4> slots{};
  alignas(64) std::array<uint8_t, 64> cqe;
  cqe.fill(0xff);  // no completion yet
  QueueControl control{};
  uint32_t dbrec = 0;
  uint64_t doorbell = 0;
  const QueueView view{.sq = slots[0].bytes,
                       .doorbell = &doorbell,
                       .dbrec = &dbrec,
                       .cqe = cqe.data(),
                       .control = &control,
                       .qpn_be = 0,
                       .depth = slots.size(),
                       .max_message = 1 << 30,
                       .sink_lkey_be = 0,
                       .flags = 0};
  const Status status = WriteToPeer<warpverbs::arch::Cpu>(view, {.addr = 0x1000, .rkey = {}},
                                                          {.addr = 0x2000, .bytes = 8, .lkey = {}});
  const bool rung = doorbell != 0 && dbrec != 0;
  std::printf("the doorbell was %s; no NIC, so the wait %s\n", rung ? "rung" : "not rung",
              status.code == Code::kTimeout ? "timed out" : "ended as it should not");
  return rung && status.code == Code::kTimeout ? 0 : 1;
}
