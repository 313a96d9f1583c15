// Errors: a failed operation stops its queue until the host resets it. Kernel and host both learn the cause.
#include "common/example.hpp"

using namespace warpverbs;

template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Write(to, from));
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches errors: a write fails, both sides reset, and the next one arrives.", [] {
    const host::Device device;
    Pair pair(device);
    Memory from(device, 8, uint64_t{42}), to(device, 8, uint64_t{0});
    const device::QueueView view = pair.here.View();
    const device::RemoteMemory beyond = to.Remote(1);  // the last of 8 words is out of the region

    const device::Status refused = Put<arch::Cpu>(view, beyond, from.Local());
    Check(refused.code == device::Code::kError, "a write past the end of the peer's region fails");
    std::printf("The kernel: %s\n", host::Describe(refused).c_str());
    const std::optional<host::QueueError> error = pair.here.LastError();
    Check(error && error->syndrome == refused.syndrome, "the host learns the same cause");
    std::printf("The host: %s\n", error->Describe().c_str());

    const device::Status later = Put<arch::Cpu>(view, to.Remote(), from.Local());
    Check(later.code == device::Code::kError && later.syndrome == refused.syndrome, "the error lasts");
    Check(to[0] == 0 && to[1] == 0, "nothing was written");

    pair.here.Reset();
    pair.there.Reset();  // both sides, because a reset changes packet numbers
    pair.Connect();
    Check(!pair.here.LastError(), "a reset clears the error");
    CheckOk(Put<arch::Cpu>(view, to.Remote(), from.Local()),
            "the write after the reset");  // the same view
    Check(to == from, "it arrived");
    std::puts("The write past the end was refused; after a reset the next one arrived.");
  });
}
