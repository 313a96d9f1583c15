// Signals without data: two sides keep in step. A flag has the number of the round, a counter the number of
// rounds done.
#include "warpverbs/device/signal.hpp"

#include "common/example.hpp"

using namespace warpverbs;
using device::Compare;

constexpr uint64_t kRounds = 50;

// SignalSet() replaces the word. The follower waits for exactly this round, so it has seen the last one.
template <class A>
WARPVERBS_DEVICE device::Status Lead(const device::QueueView& view, const device::RemoteMemory& round,
                                     const uint64_t* done) {
  device::SendQueue<A, device::Exclusive> queue(view);
  device::Status status;
  for (uint64_t i = 1; i <= kRounds && status.ok(); ++i) {
    status = PostAndWait<A>(queue, device::SignalSet(round, i));
    if (status.ok()) status = device::WaitSignal<A>(done, Compare::kGreaterOrEqual, i, TenSeconds<A>());
    if (status.ok() && A::Load(done) != i) status.code = device::Code::kInvalid;  // out of step
  }
  return status;
}

// SignalAdd() counts, so any number of peers could signal the same word.
template <class A>
WARPVERBS_DEVICE device::Status Follow(const device::QueueView& view, const device::RemoteMemory& done,
                                       const uint64_t* round) {
  device::SendQueue<A, device::Exclusive> queue(view);
  device::Status status;
  for (uint64_t i = 1; i <= kRounds && status.ok(); ++i) {
    status = device::WaitSignal<A>(round, Compare::kEqual, i, TenSeconds<A>());
    if (status.ok()) status = PostAndWait<A>(queue, device::SignalAdd(done));
  }
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches signals: keeps two kernels in step.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory<uint64_t> round(device, 1), done(device, 1);
    device::Status led, followed;
    RunTogether([&] { led = Lead<arch::Cpu>(pair.here.View(), round.Remote(), &done[0]); },
                [&] { followed = Follow<arch::Cpu>(pair.there.View(), done.Remote(), &round[0]); });
    CheckOk(led, "the leader");
    CheckOk(followed, "the follower");
    Check(round[0] == kRounds && done[0] == kRounds, "both have done every round");
    std::puts("Two kernels did 50 rounds in step.");
  });
}
