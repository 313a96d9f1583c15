// Limits of a wait: a deadline, and an abort word that the host may set. No call waits forever.
#include "common/example.hpp"

using namespace warpverbs;

// A post that finds a free slot needs no limit. A later kernel may wait for the ticket.
template <class A>
WARPVERBS_DEVICE device::Posted Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Posted posted = queue.Post(device::Write(to, from));
  return posted;
}

// The deadline counts on the clock of the waiting processor. A wait may be repeated after it has ended.
template <class A>
WARPVERBS_DEVICE device::Status WaitFor(const device::QueueView& view, const device::Ticket& ticket,
                                        uint64_t timeout_ns, const uint64_t* abort) {
  device::SendQueue<A, device::Exclusive> queue(view);
  return queue.Wait(ticket, {.deadline_ns = A::NowNs() + timeout_ns, .abort = abort});
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches limits: ends a wait for an absent peer by a deadline, and by an abort word.", [] {
        const host::Device device;
        host::Endpoint here(device), there(device);
        here.Connect(there.Info());  // the peer is not connected yet, so the NIC retries
        Memory from(device, 8, uint64_t{42}), to(device, 8, uint64_t{0});
        const device::QueueView view = here.View();
        const device::Posted posted = Put<arch::Cpu>(view, to.Remote(), from.Local());
        CheckOk(posted.status, "posting");
        uint64_t abort = 0;
        const auto wait = [&](uint64_t timeout_ns) {
          return WaitFor<arch::Cpu>(view, posted.ticket, timeout_ns, &abort);
        };
        Check(wait(1'000'000).code == device::Code::kTimeout, "the deadline ends a wait");

        device::Status aborted;
        RunTogether(
            [&] { aborted = wait(10'000'000'000); },
            [&] { arch::Cpu::StoreRelease(&abort, uint64_t{1}); });  // the host may do this at any time
        Check(aborted.code == device::Code::kAborted, "the abort word ends a wait");

        abort = 0;
        there.Connect(here.Info());
        CheckOk(wait(10'000'000'000), "the wait after the peer has connected");
        Check(to == from, "the write arrived in the end");
        std::puts("One wait timed out, one was aborted, and the third saw the write arrive.");
      });
}
