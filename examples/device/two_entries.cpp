// Two pieces of local memory in one message: a header and a payload become adjacent at the peer.
#include "common/example.hpp"

using namespace warpverbs;

// Writes, reads and sends take two pieces, with or without immediate data.
template <class A>
WARPVERBS_DEVICE device::Status Gather(const device::QueueView& view, const device::RemoteMemory& to,
                                       const device::LocalMemory& header,
                                       const device::LocalMemory& payload) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Write(to, header, payload));
  return status;
}

template <class A>
WARPVERBS_DEVICE device::Status Scatter(const device::QueueView& view, const device::RemoteMemory& from,
                                        const device::LocalMemory& header,
                                        const device::LocalMemory& payload) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::Read(from, header, payload));
  return status;
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches two pieces: writes two pieces of memory as one message, and reads them back.", [] {
        const host::Device device;
        const Pair pair(device);
        Memory header(device, 1, uint64_t{1}), payload(device, 9, uint64_t{2}), to(device, 10, uint64_t{0});
        CheckOk(Gather<arch::Cpu>(pair.here.View(), to.Remote(), header.Local(), payload.Local()),
                "the write");
        Check(to[0] == 1 && to[1] == 2 && to[9] == 2, "the payload follows the header");
        to[0] = 3;
        to[9] = 4;
        CheckOk(Scatter<arch::Cpu>(pair.here.View(), to.Remote(), header.Local(), payload.Local()),
                "the read");
        Check(header[0] == 3 && payload[0] == 2 && payload[8] == 4, "both came back to their places");
        std::puts("8 and 72 bytes went as one message of 80, and came back as two.");
      });
}
