// Long messages: a write or read longer than the device's longest message is split, with one ticket.
#include "common/example.hpp"

using namespace warpverbs;

// A send cannot be split, because each part would take a receive. The post refuses it.
template <class A>
WARPVERBS_DEVICE device::Posted Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from, device::Status* send) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  const device::LocalMemory too_long{from.addr, uint64_t{view.max_message} + 1, from.lkey};
  *send = queue.Post(device::Send(too_long), limit).status;
  device::Posted posted = queue.Post(device::Write(to, from), limit);
  if (posted.status.ok()) posted.status = queue.Wait(posted.ticket, limit);
  return posted;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches long messages: writes 20000 bytes; try softhca --max-message 4k.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory from(device, 2500, uint64_t{42}), to(device, 2500, uint64_t{0});
    const device::QueueView view = pair.here.View();
    device::Status send;
    const device::Posted posted = Put<arch::Cpu>(view, to.Remote(), from.Local(), &send);
    CheckOk(posted.status, "the write");
    Check(to == from, "all 20000 bytes arrived");
    Check(send.request_error == device::RequestError::kMessageTooLong, "a send that is too long is refused");
    // Each message takes a slot, and the ticket has the index of the last.
    const uint32_t messages = posted.ticket.index + 1;
    Check(messages == 1 + 19999u / view.max_message, "there are no more messages than needed");
    std::printf("20000 bytes went as %u messages of up to %u bytes.\n", messages, view.max_message);
  });
}
