// Put and signal: writes data, then a word that tells the peer that the data have arrived. Needs no receive
// queue and no host.
#include "common/example.hpp"
#include "warpverbs/device/signal.hpp"

using namespace warpverbs;

// Data and signal take one doorbell. The producer waits, so that its kernel does not end with pending posts.
template <class A>
WARPVERBS_DEVICE device::Status Produce(const device::QueueView& view, const device::RemoteMemory& to,
                                        const device::LocalMemory& from, const device::RemoteMemory& ready) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const auto status = PostAndWait<A>(queue, device::PutSignal(to, from, device::SignalAdd(ready)));
  return status;
}

// The peer's kernel. A thread that sees the signal also sees the data.
template <class A>
WARPVERBS_DEVICE device::Status Consume(const uint64_t* ready, const uint64_t* data, uint64_t words,
                                        uint64_t* sum) {
  const auto status = device::WaitSignal<A>(ready, device::Compare::kGreaterOrEqual, 1, TenSeconds<A>());
  if (!status.ok()) return status;
  for (uint64_t i = 0; i < words; ++i) *sum += data[i];
  return status;
}

int main(int argc, char** argv) {
  return Run(
      argc, argv,
      "Teaches put and signal: writes data and then a signal that a kernel of the peer waits for.", [] {
        const host::Device device;
        const Pair pair(device);
        Memory<uint64_t> from(device, 100), to(device, 100), ready(device, 1);
        for (uint64_t i = 0; i < 100; ++i) from[i] = i + 1;
        device::Status produced, consumed;
        uint64_t sum = 0;
        RunTogether(
            [&] {
              produced = Produce<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), ready.Remote());
            },
            [&] { consumed = Consume<arch::Cpu>(&ready[0], &to[0], 100, &sum); });
        CheckOk(produced, "the producer");
        CheckOk(consumed, "the consumer");
        Check(sum == 5050, "the consumer found all data in place");
        std::puts("The consumer's sum is 5050.");
      });
}
