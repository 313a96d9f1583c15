// And, or, xor: clears, sets and flips bits of a word of the peer, and fetches the old value.
#include "common/example.hpp"
#include "warpverbs/device/atomics.hpp"

using namespace warpverbs;

/// The values of the word before each operation.
struct Found {
  uint64_t before_or, before_and, before_xor;
};

template <class A>
WARPVERBS_DEVICE device::Status ChangeBits(const device::QueueView& view, const device::RemoteMemory& word,
                                           const device::LocalMemory& fetched, Found* found) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const auto change = [&](const auto& operation, uint64_t* before) {
    const device::Status status = PostAndWait<A>(queue, operation);
    *before = device::Fetched<A>(*reinterpret_cast<const uint64_t*>(fetched.addr));
    return status;
  };
  device::Status status = change(device::FetchOr(word, uint64_t{0x0f}, fetched), &found->before_or);
  if (status.ok()) status = change(device::FetchAnd(word, uint64_t{0x3c}, fetched), &found->before_and);
  if (status.ok()) status = change(device::FetchXor(word, uint64_t{0xff}, fetched), &found->before_xor);
  return status;
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Teaches bitwise atomics: sets, clears and flips bits of a word of the peer.", [] {
    const host::Device device;
    const Pair pair(device);
    Memory word(device, 1, uint64_t{0x30}), fetched(device, 1, uint64_t{0});
    Found found{};
    CheckOk(ChangeBits<arch::Cpu>(pair.here.View(), word.Remote(), fetched.Local(), &found), "the kernel");
    Check(found.before_or == 0x30, "the word was 0x30");
    Check(found.before_and == 0x3f, "or has set the low bits");
    Check(found.before_xor == 0x3c, "and has cleared the bits that its mask lacks");
    Check(word[0] == 0xc3, "xor has flipped all eight bits");
    std::puts("0x30 | 0x0f = 0x3f, & 0x3c = 0x3c, ^ 0xff = 0xc3.");
  });
}
