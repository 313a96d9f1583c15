// Dump: the NIC reads local memory and sends nothing. Some memory of a GPU needs that after a read: a
// completion may overtake the data on its way, and the dump pushes them through.
#include "common/example.hpp"

using namespace warpverbs;

// By hand: the dump is done after the read, and what it found in place is visible.
template <class A>
WARPVERBS_DEVICE device::Status ReadAndDump(const device::QueueView& view, const device::RemoteMemory& from,
                                            const device::LocalMemory& to, uint32_t* last_slot) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Status status = queue.Post(device::Read(from, to), limit, mlx5::kCqeOnError).status;
  const device::Posted dumped = queue.Post(device::Dump{to}, limit);
  *last_slot = dumped.ticket.index;
  if (status.ok()) status = dumped.status.ok() ? queue.Wait(dumped.ticket, limit) : dumped.status;
  queue.Save();
  return status;
}

// Where the endpoint says dump_after_read, every read and fetch brings its dump along.
template <class A>
WARPVERBS_DEVICE device::Status ReadOnly(const device::QueueView& view, const device::RemoteMemory& from,
                                         const device::LocalMemory& to, uint32_t* last_slot) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  const device::Posted posted = queue.Post(device::Read(from, to), limit);
  *last_slot = posted.ticket.index;
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  queue.Save();
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Follows a read by a dump, by hand and by itself.", [] {
    const host::Device device;
    const Pair by_hand(device), by_itself(device, {.dump_after_read = true});
    Memory from(device, 64, uint64_t{42}), first(device, 64, uint64_t{0}), second(device, 64, uint64_t{0});
    uint32_t slots[2] = {};
    CheckOk(ReadAndDump<arch::Cpu>(by_hand.here.View(), from.Remote(), first.Local(), &slots[0]), "by hand");
    CheckOk(ReadOnly<arch::Cpu>(by_itself.here.View(), from.Remote(), second.Local(), &slots[1]),
            "by itself");
    Check(first == from && second == from, "both have read the peer's memory");
    Check(slots[0] == 1 && slots[1] == 1, "both took a slot for the read and one for the dump");
    std::puts("Two reads, each with its dump.");
  });
}
