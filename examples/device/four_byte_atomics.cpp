// Atomics of 4 bytes. They leave the neighbouring bytes unchanged.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

/// The values of the word before each operation.
struct Old {
  uint32_t add, compare_swap, bits, swap;
};

// The type of the operands selects the size. The old value arrives big-endian, and Fetched() converts it.
template <class A>
WARPVERBS_DEVICE device::Status ChangeOften(const device::QueueView& view, const device::RemoteMemory& word,
                                            const device::LocalMemory& fetched, Old* old) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const auto change = [&](const auto& operation, uint32_t* before) {
    const device::Status status = PostAndWait<A>(queue, operation);
    *before = device::Fetched<A>(*reinterpret_cast<const uint32_t*>(fetched.addr));
    return status;
  };
  const device::CompareSwapOperands<uint32_t> exchange{.compare = 4, .swap = 40};
  device::Status status = change(device::FetchAdd(word, uint32_t{5}, fetched), &old->add);
  if (status.ok()) status = change(device::CompareSwap(word, exchange, fetched), &old->compare_swap);
  if (status.ok()) status = change(device::FetchOr(word, uint32_t{3}, fetched), &old->bits);
  if (status.ok()) status = change(device::Swap(word, uint32_t{7}, fetched), &old->swap);
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches 4-byte atomics: adds to, swaps and sets bits of a word of the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    constexpr uint32_t kAllBits = 0xffffffff;
    Memory words(device, 3, kAllBits), fetched(device, 2, kAllBits);
    Old old{};
    CheckOk(ChangeOften<arch::Cpu>(pair.here.View(), words.Remote(1), fetched.Local(0, 1), &old),
            "the kernel");
    Check(old.add == kAllBits && old.compare_swap == 4, "the addition wrapped, without a carry");
    Check(old.bits == 40 && old.swap == 43 && words[1] == 7,
          "each operation found the result of the last one");
    Check(words[0] == kAllBits && words[2] == kAllBits, "the neighbours are untouched");
    Check(fetched[0] == mlx5::ToBe32(43).raw && fetched[1] == kAllBits, "4 bytes were fetched and no more");
    std::puts("The middle one of three 4-byte words went from -1 by 4, 40 and 43 to 7.");
  });
}
