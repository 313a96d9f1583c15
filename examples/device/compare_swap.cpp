// Compare and swap: a lock in the memory of the peer.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

constexpr uint64_t kFree = 0;

// The swap takes place only if the lock is free. Then the fetched old value is kFree.
template <class A>
WARPVERBS_DEVICE device::Status TryLock(const device::QueueView& view, const device::RemoteMemory& lock,
                                        const device::LocalMemory& fetched, uint64_t me, uint64_t* holder) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::CompareSwapOperands<uint64_t> exchange{.compare = kFree, .swap = me};
  const device::Status status = PostAndWait<A>(queue, device::CompareSwap(lock, exchange, fetched));
  *holder = device::Fetched<A>(*reinterpret_cast<const uint64_t*>(fetched.addr));
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches compare and swap: takes a lock in the memory of the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory lock(device, 1, kFree), fetched(device, 1, uint64_t{99});
    uint64_t holder = 99;
    const auto lock_as = [&](uint64_t me) {
      return TryLock<arch::Cpu>(pair.here.View(), lock.Remote(), fetched.Local(), me, &holder);
    };
    CheckOk(lock_as(1), "the first try");
    Check(holder == kFree && lock[0] == 1, "1 finds the lock free and takes it");
    CheckOk(lock_as(2), "the second try");
    Check(holder == 1 && lock[0] == 1, "2 finds it held by 1 and changes nothing");
    std::puts("1 took the lock, 2 found it held by 1.");
  });
}
