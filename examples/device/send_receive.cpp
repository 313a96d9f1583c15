// Send and receive: the peer chooses the place of a message by posting memory for it.
#include "common/example.hpp"
#include "warpverbs/device/receive_queue.hpp"

using namespace warpverbs;

// Sends two messages. The second carries 4 bytes of immediate data in addition.
template <class A>
WARPVERBS_DEVICE device::Status SendTwo(const device::QueueView& view, const device::LocalMemory& first,
                                        const device::LocalMemory& second) {
  device::SendQueue<A, device::Exclusive> queue(view);
  device::Status status = PostAndWait<A>(queue, device::Send(first));
  if (status.ok()) status = PostAndWait<A>(queue, device::SendImm(second, A::ToBe32(2)));
  return status;
}

// The peer's kernel. The NIC retries a message that comes before its receive.
template <class A>
WARPVERBS_DEVICE void TakeTwo(const device::ReceiveQueueView& view, const device::LocalMemory& first,
                              const device::LocalMemory& second, device::Received (&received)[2]) {
  device::ReceiveQueue<A> queue(view);
  device::Status status = queue.Post(first);
  if (status.ok()) status = queue.Post(second);
  queue.Submit();
  for (device::Received& next : received)
    next = status.ok() ? queue.Poll(TenSeconds<A>()) : device::Received{.status = status};
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches send and receive: sends two messages, one with immediate data.", [] {
    const host::Device device;
    const Pair pair(device, {}, {.receive_depth = 4});
    Memory from(device, 64, uint64_t{42}), to(device, 64, uint64_t{0});
    device::Status status;
    device::Received received[2];
    RunTogether(
        [&] { status = SendTwo<arch::Cpu>(pair.here.View(), from.Local(0, 10), from.Local(10, 1)); },
        [&] { TakeTwo<arch::Cpu>(pair.there.ReceiveView(), to.Local(0, 32), to.Local(32, 32), received); });
    CheckOk(status, "sending");
    for (const device::Received& next : received) CheckOk(next.status, "receiving");
    Check(received[0].bytes == 80 && !received[0].has_imm, "the first message has 80 bytes and no immediate");
    Check(received[1].bytes == 8 && received[1].has_imm, "the second message has 8 bytes and an immediate");
    Check(received[1].imm == mlx5::ToBe32(2) && !received[1].is_write,
          "the immediate is the one that was sent");
    Check(to[9] == 42 && to[10] == 0 && to[32] == 42 && to[33] == 0, "each message fills its own receive");
    std::puts("Sent 80 bytes, and 8 bytes with an immediate.");
  });
}
