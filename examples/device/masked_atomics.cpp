// Masked atomics: one operation on several fields of a word.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

// Increments four counters of 16 bits in one word. An overflow does not carry into the next field, because
// the boundary mask has the top bit of each field.
template <class A>
WARPVERBS_DEVICE device::Status CountInFields(const device::QueueView& view, const device::RemoteMemory& word,
                                              const device::LocalMemory& fetched) {
  constexpr uint64_t kOneEach = 0x0001'0001'0001'0001, kBoundary = 0x8000'8000'8000'8000;
  device::SendQueue<A, device::Exclusive> queue(view);
  const auto status = PostAndWait<A>(queue, device::MaskedFetchAdd(word, kOneEach, kBoundary, fetched));
  return status;
}

// The low byte of the word is a state, the high half an owner. Sets the owner if and only if the state is the
// expected one. The rest of the word is neither compared nor changed.
template <class A>
WARPVERBS_DEVICE device::Status TakeOver(const device::QueueView& view, const device::RemoteMemory& word,
                                         uint64_t state, uint64_t owner) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::CompareSwapOperands<uint64_t> exchange{
      .compare = state, .swap = owner << 32, .compare_mask = 0xff, .swap_mask = 0xffff'ffff'0000'0000};
  const auto status = PostAndWait<A>(queue, device::MaskedCompareSwap(word, exchange));
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches masked atomics: changes fields of a word, each on its own.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory word(device, 1, uint64_t{0x0001'ffff'0003'7fff}), fetched(device, 1, uint64_t{0});
    CheckOk(CountInFields<arch::Cpu>(pair.here.View(), word.Remote(), fetched.Local()), "the add");
    Check(fetched[0] == 0x0001'ffff'0003'7fff, "the old word is fetched");
    Check(word[0] == 0x0002'0000'0004'8000, "every field has grown by one, without a carry");
    word[0] = 0x0000'0007'1234'5601;
    CheckOk(TakeOver<arch::Cpu>(pair.here.View(), word.Remote(), 0x02, 9), "the first take-over");
    Check(word[0] == 0x0000'0007'1234'5601, "in another state nothing changes");
    CheckOk(TakeOver<arch::Cpu>(pair.here.View(), word.Remote(), 0x01, 9), "the second take-over");
    Check(word[0] == 0x0000'0009'1234'5601, "the owner has changed and nothing else");
    std::puts("Four counters in one word counted, and an owner changed next to its state.");
  });
}
