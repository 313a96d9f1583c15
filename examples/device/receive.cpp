// A receive queue that does not run dry: the kernel posts each receive again. Eight receives serve a hundred
// messages.
#include "common/example.hpp"
#include "warpverbs/device/receive_queue.hpp"

using namespace warpverbs;

constexpr uint32_t kReceives = 8, kMessages = 100;

template <class A>
WARPVERBS_DEVICE device::Status SendAll(const device::QueueView& view, device::LocalMemory words) {
  device::SendQueue<A, device::Exclusive> queue(view);
  device::Status status;
  for (uint32_t i = 0; i < kMessages && status.ok(); ++i, words.addr += words.bytes) {
    status = queue.Post(device::Send(words), TenSeconds<A>()).status;
  }
  if (status.ok()) status = queue.Flush(TenSeconds<A>());
  return status;
}

// Messages fill receives in order, so the memory of receive n is at place n % kReceives. One Submit() may
// cover many receives. Here each receive gets its own, so that the sender seldom waits.
template <class A>
WARPVERBS_DEVICE device::Status TakeAll(const device::ReceiveQueueView& view,
                                        const device::LocalMemory& place, uint64_t* sum) {
  device::ReceiveQueue<A> queue(view);
  device::Status status;
  for (uint32_t i = 0; i < kReceives && status.ok(); ++i)
    status = queue.Post({place.addr + i * place.bytes, place.bytes, place.lkey});
  queue.Submit();
  for (uint32_t i = 0; i < kMessages && status.ok(); ++i) {
    const device::Received received = queue.Poll(TenSeconds<A>());
    status = received.status;
    if (!status.ok()) break;
    const uint64_t word = place.addr + received.index % kReceives * place.bytes;
    *sum += *reinterpret_cast<const uint64_t*>(word);
    status = queue.Post({word, place.bytes, place.lkey});
    queue.Submit();
  }
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches receive queues: receives a hundred messages with eight receives.", [] {
    const host::Device device;
    const Pair pair(device, {}, {.receive_depth = kReceives});
    Memory<uint64_t> from(device, kMessages), to(device, kReceives);
    for (uint64_t i = 0; i < kMessages; ++i) from[i] = i + 1;
    device::Status sent, taken;
    uint64_t sum = 0;
    RunTogether([&] { sent = SendAll<arch::Cpu>(pair.here.View(), from.Local(0, 1)); },
                [&] { taken = TakeAll<arch::Cpu>(pair.there.ReceiveView(), to.Local(0, 1), &sum); });
    CheckOk(sent, "sending");
    CheckOk(taken, "receiving");
    Check(sum == 5050, "every message was taken once");
    std::puts("Received 100 messages; their sum is 5050.");
  });
}
