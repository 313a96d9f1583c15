// A checked build (WARPVERBS_CHECKED) compares every operation with the regions that the host has allowed. It
// refuses an operation that the NIC would refuse, before it is posted, and names the mistake. The queue stays
// usable.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Write(to, from));
  return status;
}

template <class A>
WARPVERBS_DEVICE device::Status Count(const device::QueueView& view, const device::RemoteMemory& counter) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::FetchAdd(counter, uint64_t{1}));
  return status;
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches checked builds: makes five mistakes, each of which is named before it is posted.",
      [] {
        const host::Device device;
        Pair pair(device);
        Memory from(device, 8, uint64_t{42}), to(device, 8, uint64_t{0}), unlisted(device, 8, uint64_t{0});
        pair.here.AllowRegions({{from.View()}}, {{to.View()}});
        const device::QueueView view = pair.here.View();
        const auto expect = [](const device::Status& status, device::RequestError mistake) {
          Check(status.code == device::Code::kInvalid && status.request_error == mistake,
                "the mistake is found");
          std::printf("%s\n", host::Describe(status).c_str());
        };
        const device::RemoteMemory odd{to.Remote().addr + 4, to.Remote().rkey};
        expect(Put<arch::Cpu>(view, to.Remote(), unlisted.Local()), device::RequestError::kUnknownLkey);
        expect(Put<arch::Cpu>(view, unlisted.Remote(), from.Local()), device::RequestError::kUnknownRkey);
        expect(Put<arch::Cpu>(view, to.Remote(1), from.Local()), device::RequestError::kRemoteOutOfBounds);
        device::LocalMemory too_long = from.Local();
        too_long.bytes += 1;
        expect(Put<arch::Cpu>(view, to.Remote(), too_long), device::RequestError::kLocalOutOfBounds);
        expect(Count<arch::Cpu>(view, odd), device::RequestError::kMisaligned);
        CheckOk(Put<arch::Cpu>(view, to.Remote(), from.Local()), "the correct write");
        Check(to == from, "it arrived");
        std::puts("Five mistakes were refused, and the queue still works.");
      });
}
