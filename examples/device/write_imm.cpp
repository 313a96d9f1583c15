// A write with immediate data: the peer is told, by a completion of its receive queue that carries 4 bytes.
#include "common/example.hpp"
#include "warpverbs/device/receive_queue.hpp"

using namespace warpverbs;

// Immediate data cross the network as they are stored, so both sides swap them, or neither does.
template <class A>
WARPVERBS_DEVICE device::Status Put(const device::QueueView& view, const device::RemoteMemory& to,
                                    const device::LocalMemory& from, uint32_t imm) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::Status status = PostAndWait<A>(queue, device::WriteImm(to, from, A::ToBe32(imm)));
  queue.Save();
  return status;
}

// The peer's kernel. The data go where the write says, so a receive without memory will do.
template <class A>
WARPVERBS_DEVICE device::Received Take(const device::ReceiveQueueView& view) {
  device::ReceiveQueue<A> queue(view);
  device::Received received{.status = queue.Post({})};
  queue.Submit();
  if (received.status.ok()) received = queue.Poll(TenSeconds<A>());
  queue.Save();
  return received;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Writes to the peer and hands it 4 bytes of immediate data.", [] {
    const host::Device device;
    const Pair pair(device, {}, {.receive_depth = 4});
    Memory from(device, 128, uint64_t{42}), to(device, 128, uint64_t{0});
    device::Status status;
    device::Received received;
    RunTogether([&] { status = Put<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), 7); },
                [&] { received = Take<arch::Cpu>(pair.there.ReceiveView()); });
    CheckOk(status, "the write");
    CheckOk(received.status, "the receive");
    Check(received.is_write && received.has_imm, "the completion tells of a write with immediate data");
    Check(received.bytes == 1024 && to == from, "who has the immediate has the data");
    std::printf("The peer got %u bytes and the immediate %u.\n", received.bytes, mlx5::FromBe(received.imm));
    Check(received.imm == mlx5::ToBe32(7), "the immediate is 7");
  });
}
