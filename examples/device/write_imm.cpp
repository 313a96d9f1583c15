// A write with immediate data: the peer gets a completion of its receive queue with 4 bytes.
#include "common/example.hpp"
#include "warpverbs/device/receive_queue.hpp"

using namespace warpverbs;

// The NIC sends immediate data in the byte order of memory, so both sides convert them, or neither.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from, uint32_t imm) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::WriteImm(to, from, A::ToBe32(imm)));
  return status;
}

// The peer's kernel. The write names the place of the data, so the receive needs no memory.
template <class A>
WARPVERBS_DEVICE device::Received Take(const device::ReceiveQueueView& view) {
  device::ReceiveQueue<A> queue(view);
  device::Received received{.status = queue.Post({})};
  queue.Submit();
  if (received.status.ok()) received = queue.Poll(TenSeconds<A>());
  return received;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches immediate data: writes to the peer, and notifies it with 4 bytes.", [] {
    const host::Device device;
    const Pair pair(device, {}, {.receive_depth = 4});
    Memory from(device, 128, uint64_t{42}), to(device, 128, uint64_t{0});
    device::Status status;
    device::Received received;
    RunTogether([&] { status = Put<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), 7); },
                [&] { received = Take<arch::Cpu>(pair.there.ReceiveView()); });
    CheckOk(status, "the write");
    CheckOk(received.status, "the receive");
    Check(received.is_write && received.has_imm, "the completion is of a write with immediate data");
    Check(received.bytes == 1024 && to == from, "the data arrived before the immediate");
    std::printf("The peer got %u bytes and the immediate %u.\n", received.bytes, mlx5::FromBe(received.imm));
    Check(received.imm == mlx5::ToBe32(7), "the immediate is 7");
  });
}
