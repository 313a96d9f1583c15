// Dump: the NIC reads local memory and sends nothing. Some GPU memory needs this after a read: a completion
// may overtake the data, and the dump pushes the data through.
#include "common/example.hpp"

using namespace warpverbs;

// Explicit: the kernel posts a dump after the read. Once the dump is done, the data are visible.
template <class A>
WARPVERBS_DEVICE device::Status ReadAndDump(const device::QueueView& view, const device::RemoteMemory& from,
                                            const device::LocalMemory& to, uint32_t* last_slot) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status = queue.Post(device::Read(from, to), limit, mlx5::kCqeOnError).status;
  const device::Posted dumped = queue.Post(device::Dump{to}, limit);
  *last_slot = dumped.ticket.index;
  if (status.ok()) status = dumped.status.ok() ? queue.Wait(dumped.ticket, limit) : dumped.status;
  return status;
}

// Automatic: with EndpointConfig::dump_after_read, every read and fetch is followed by a dump.
template <class A>
WARPVERBS_DEVICE device::Status ReadOnly(const device::QueueView& view, const device::RemoteMemory& from,
                                         const device::LocalMemory& to, uint32_t* last_slot) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  const device::Posted posted = queue.Post(device::Read(from, to), limit);
  *last_slot = posted.ticket.index;
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches dumps: follows a read by a dump, explicitly and automatically.", [] {
    const host::Device device;
    const Pair explicit_dump(device), automatic_dump(device, {.dump_after_read = true});
    Memory from(device, 64, uint64_t{42}), first(device, 64, uint64_t{0}), second(device, 64, uint64_t{0});
    uint32_t slots[2] = {};
    CheckOk(ReadAndDump<arch::Cpu>(explicit_dump.here.View(), from.Remote(), first.Local(), &slots[0]),
            "the explicit dump");
    CheckOk(ReadOnly<arch::Cpu>(automatic_dump.here.View(), from.Remote(), second.Local(), &slots[1]),
            "the automatic dump");
    Check(first == from && second == from, "both have read the peer's memory");
    Check(slots[0] == 1 && slots[1] == 1, "both took a slot for the read and one for the dump");
    std::puts("Two reads, each with its dump.");
  });
}
