// A ring of completions: after an error it still knows what was done before, what failed, and why.
#include "common/example.hpp"

using namespace warpverbs;

// Four writes, of which the third names a key that the peer does not have. A collapsed completion queue keeps
// its newest completion, which may tell of a flush; a ring keeps the first error.
template <class A>
WARPVERBS_DEVICE void PutFour(const device::QueueView& view, const device::RemoteMemory& to,
                              const device::LocalMemory& from, device::Status (&statuses)[4]) {
  device::SendQueue<A, device::Exclusive> queue(view);
  const device::WaitLimit limit = TenSeconds<A>();
  device::Posted posted[4];
  for (uint32_t i = 0; i < 4; ++i) {
    const mlx5::Be32 wrong{~to.rkey.raw};
    const device::RemoteMemory word_to{to.addr + i * 8, i == 2 ? wrong : to.rkey};
    posted[i] = queue.Post(device::Write(word_to, {from.addr + i * 8, 8, from.lkey}), limit);
  }
  for (uint32_t i = 0; i < 4; ++i) {
    statuses[i] = posted[i].status.ok() ? queue.Wait(posted[i].ticket, limit) : posted[i].status;
  }
  queue.Save();
}

int main(int argc, char** argv) {
  return Run(argc, argv, "Lets the third of four writes fail, and asks a completion ring why.", [] {
    const host::Device device;
    const Pair pair(device, {.cq_mode = host::CqMode::kRing});
    Memory from(device, 4, uint64_t{42}), to(device, 4, uint64_t{0});
    device::Status statuses[4];
    PutFour<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), statuses);
    CheckOk(statuses[0], "the first write");
    CheckOk(statuses[1], "the second write");
    for (const device::Status& status : {statuses[2], statuses[3]}) {
      Check(status.code == device::Code::kError && status.wqe_index == 2, "index 2 is the cause of all");
      Check(status.syndrome == static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess), "the peer refused it");
    }
    const std::optional<host::QueueError> error = pair.here.LastError();  // any thread of the host may ask
    Check(error && error->wqe_index == 2, "the host is told the same");
    std::printf("%s\nWrites 0 and 1 are done, write 2 is why the queue has failed.\n", error->What().c_str());
  });
}
