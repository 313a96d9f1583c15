// Nothing waits for ever: a call takes a deadline, and a word by which the host calls it off.
#include "common/example.hpp"

using namespace warpverbs;

// A post whose slots are there needs no limit; waiting does. A ticket may be waited for again.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from, const device::Limit& limit,
                                    device::Ticket* ticket) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Posted posted = queue.Post(device::Write(to, from));
  *ticket = posted.ticket;
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  queue.Save();
  return status;
}

template <class A>
WARPVERBS_DEVICE device::Status WaitAgain(const device::QueueView& view, const device::Ticket& ticket,
                                          const device::Limit& limit) {
  device::SendQueue<A, device::Exclusive> queue(view);
  return queue.Wait(ticket, limit);
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Gives up waiting for a peer that is not there, by deadline and by abort.", [] {
    using arch::Cpu;
    const host::Device device;
    host::Endpoint here(device), there(device);
    here.Connect(there.Info());  // the peer does not know of us yet, so writes are retried
    Memory from(device, 8, uint64_t{42}), to(device, 8, uint64_t{0});
    device::Ticket ticket;
    const device::Limit one_millisecond{.deadline_ns = Cpu::NowNs() + 1'000'000};
    const auto late = Put<Cpu>(here.View(), to.Remote(), from.Local(), one_millisecond, &ticket);
    Check(late.code == device::Code::kTimeout, "the deadline ends the wait");

    uint64_t abort = 0;
    const device::Limit until_called_off{.deadline_ns = TenSeconds<Cpu>().deadline_ns, .abort = &abort};
    device::Status aborted;
    RunTogether([&] { aborted = WaitAgain<Cpu>(here.View(), ticket, until_called_off); },
                [&] { Cpu::StoreRelease(&abort, uint64_t{1}); });
    Check(aborted.code == device::Code::kAborted, "the abort word ends the wait");

    there.Connect(here.Info());
    CheckOk(WaitAgain<Cpu>(here.View(), ticket, TenSeconds<Cpu>()), "the wait once the peer is there");
    Check(to == from, "the write arrived after all");
    std::puts("One wait timed out, one was called off, and the third saw the write arrive.");
  });
}
