// The doorbells and polls whose barriers check_cpu.py looks for in the assembly. Their arguments are in the
// first registers.
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/raw_send_queue.hpp"

using warpverbs::arch::Cpu;
using warpverbs::arch::Mmio;
using warpverbs::mlx5::Be64;

extern "C" {

void RingUncached(uint32_t* record, uint64_t* doorbell, uint32_t end, uint64_t value) {
  Cpu::StoreRelease(record, end);
  Cpu::StoreReleaseMmio(doorbell, Be64{value}, Mmio::kUncached);
}

void RingWriteCombining(uint32_t* record, uint64_t* doorbell, uint32_t end, uint64_t value) {
  Cpu::StoreRelease(record, end);
  Cpu::StoreReleaseMmio(doorbell, Be64{value}, Mmio::kWriteCombining);
}

void RingQueue(const warpverbs::device::QueueView& view, Be64 doorbell) {
  warpverbs::device::RawSendQueue<Cpu>(view).RingDoorbell(doorbell);
}

uint64_t LoadAfterCompletion(const uint64_t* data, const uint8_t* cqe_tail) {
  if (Cpu::LoadCqeTail(cqe_tail).high == 0) return 0;
  return *data;
}

uint64_t LoadAfterSignal(const uint64_t* data, const uint64_t* signal) {
  if (Cpu::Load(signal) == 0) return 0;
  Cpu::AcquireAfterCompletion();
  return *data;
}

}  // extern "C"
