// Nothing waits for ever: a call takes a deadline, and a word by which the host calls it off.
#include "common/example.hpp"

using namespace warpverbs;

// A post that finds free slots needs no limit, and a kernel may leave the waiting to the next one.
template <class A>
WARPVERBS_DEVICE device::Posted Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Posted posted = queue.Post(device::Write(to, from));
  queue.Save();
  return posted;
}

// The deadline is in the clock of the processor that waits. A wait that has ended may be made again.
template <class A>
WARPVERBS_DEVICE device::Status WaitFor(const device::QueueView& view, const device::Ticket& ticket,
                                        uint64_t patience_ns, const uint64_t* abort) {
  device::SendQueue<A, device::Exclusive> queue(view);
  return queue.Wait(ticket, {.deadline_ns = A::NowNs() + patience_ns, .abort = abort});
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Gives up waiting for a peer that is not there, by deadline and by abort.", [] {
    const host::Device device;
    host::Endpoint here(device), there(device);
    here.Connect(there.Info());  // the peer does not know of us yet, so the NIC tries again and again
    Memory from(device, 8, uint64_t{42}), to(device, 8, uint64_t{0});
    const device::QueueView view = here.View();
    const device::Posted posted = Put<arch::Cpu>(view, to.Remote(), from.Local());
    CheckOk(posted.status, "posting");
    uint64_t abort = 0;
    const auto wait = [&](uint64_t patience_ns) {
      return WaitFor<arch::Cpu>(view, posted.ticket, patience_ns, &abort);
    };
    Check(wait(1'000'000).code == device::Code::kTimeout, "the deadline ends a wait");

    device::Status aborted;
    RunTogether([&] { aborted = wait(10'000'000'000); },
                [&] { arch::Cpu::StoreRelease(&abort, uint64_t{1}); });  // by the host, at any time
    Check(aborted.code == device::Code::kAborted, "the abort word ends a wait");

    abort = 0;
    there.Connect(here.Info());
    CheckOk(wait(10'000'000'000), "the wait for a peer that is there");
    Check(to == from, "the write arrived after all");
    std::puts("One wait timed out, one was called off, and the third saw the write arrive.");
  });
}
