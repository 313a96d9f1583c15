// A completion ring: after an error it shows which operations were done, which one failed, and why.
#include "common/example.hpp"

using namespace warpverbs;

// Posts four writes, the third with an rkey that the peer does not have. The ring, which an endpoint has by
// default, keeps the first error. A collapsed completion queue keeps only the newest completion: a flush.
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
}

int main(int argc, char** argv) {
  return Run(
      argc, argv, "Teaches completion rings: lets the third of four writes fail, and finds the cause.", [] {
        const host::Device device;
        const Pair pair(device);
        Memory from(device, 4, uint64_t{42}), to(device, 4, uint64_t{0});
        device::Status statuses[4];
        PutFour<arch::Cpu>(pair.here.View(), to.Remote(), from.Local(), statuses);
        CheckOk(statuses[0], "the first write");
        CheckOk(statuses[1], "the second write");
        for (const device::Status& status : {statuses[2], statuses[3]}) {
          Check(status.code == device::Code::kError && status.wqe_index == 2,
                "the write at index 2 is the cause");
          Check(status.syndrome == static_cast<uint8_t>(mlx5::Syndrome::kRemoteAccess),
                "the peer refused it");
        }
        const std::optional<host::QueueError> error = pair.here.LastError();  // any host thread may call it
        Check(error && error->wqe_index == 2, "the host learns the same");
        std::printf("%s\nWrites 0 and 1 are done, write 2 is the cause of the failure.\n",
                    error->Describe().c_str());
      });
}
