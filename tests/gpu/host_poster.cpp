#include "host_poster.hpp"

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::gpu {

device::Status WriteFromHost(const host::Endpoint& endpoint, const host::MemoryView& to,
                             const host::MemoryView& from, uint64_t timeout_ns) {
  device::SendQueue<arch::Cpu, device::Exclusive> queue(endpoint.View());
  const device::WaitLimit limit{.deadline_ns = arch::Cpu::NowNs() + timeout_ns};
  const device::Posted posted = queue.Post(device::Write(to.Remote(), from.Local()), limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  return status;
}

}  // namespace warpverbs::gpu
