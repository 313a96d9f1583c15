// Each case is a mistake that the compiler must refuse; -DREFUSED_<case> selects it. Without a case the file
// compiles.
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/send_queue.hpp"

using namespace warpverbs;

device::Status Use(const device::QueueView& view, uint64_t addr, const device::LocalMemory& local,
                   uint32_t rkey) {
#if defined(REFUSED_PLAIN_KEY)
  const device::RemoteMemory remote{addr, rkey};
#else
  const device::RemoteMemory remote{addr, mlx5::ToBe32(rkey)};
#endif
#if defined(REFUSED_SHARING)
  device::SendQueue<arch::Cpu, int> queue(view);
#elif defined(REFUSED_COOPERATION)
  device::SendQueue<arch::Cpu, device::Shared, device::Exclusive> queue(view);
#else
  device::SendQueue<arch::Cpu, device::Exclusive> queue(view);
#endif
#if defined(REFUSED_COPY)
  auto copy = queue;
#endif
#if defined(REFUSED_UNUSED_POST)
  queue.Post(device::Write(remote, local));
#endif
#if defined(REFUSED_OPERATION)
  const device::Posted posted = queue.Post(local);
#else
  const device::Posted posted = queue.Post(device::Write(remote, local));
#endif
#if defined(REFUSED_UNUSED_WAIT)
  queue.Wait(posted.ticket, {});
#endif
  return posted.status.ok() ? queue.Wait(posted.ticket, {}) : posted.status;
}
