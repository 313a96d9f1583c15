// Every part of the data path, as kernels. The compiler's command line includes the arch's header and names
// it by ARCH.
#include "warpverbs/device/completion_ring.hpp"
#include "warpverbs/device/send_queue.hpp"

using A = warpverbs::arch::ARCH;
using namespace warpverbs::device;
using warpverbs::mlx5::Be32;

struct Job {
  QueueView queue;
  CqView completions;
  RemoteMemory remote;
  LocalMemory local;
  Status* status;
};

extern "C" __global__ void Post(Job job, uint32_t index) {
  const SendRing<A> ring(job.queue);
  const auto doorbell = ring.PostWrite(index, job.remote, job.local);
  ring.UpdateSendDbrRecord(index + 1);
  ring.RingDoorbell(doorbell);
}

extern "C" __global__ void Poll(Job job, uint32_t index) {
  *job.status = SendRing<A>(job.queue).PollCqOnce(index);
}

extern "C" __global__ void PollRing(Job job, uint32_t consumer_index) {
  CompletionRing<A> ring(job.completions, consumer_index);
  *job.status = ring.PollCq({A::NowNs() + 1000});
  ring.UpdateCqDbrRecord();
}

extern "C" __global__ void EveryPost(Job job, uint32_t index) {
  const SendRing<A> ring(job.queue);
  ring.PostWriteImm(index, job.remote, job.local, Be32{1});
  ring.PostWriteInline(index + 1, job.remote, job.local);
  ring.PostRead(index + 2, job.remote, job.local);
  ring.PostSend(index + 3, job.local);
  ring.PostSendImm(index + 4, job.local, Be32{1});
  ring.PostFetchAdd(index + 5, job.remote, job.local, 1);
  ring.PostCompareSwap(index + 6, job.remote, job.local, {.compare = 1, .swap = 2});
  ring.RingDoorbell(ring.PostNop(index + 7));
}

template <class Sharing>
WARPVERBS_DEVICE void PutAndWait(const Job& job) {
  SendQueue<A, Sharing> queue(job.queue);
  const Posted posted = queue.Put(job.remote, job.local, {A::NowNs() + 1000});
  *job.status = queue.Wait(posted.ticket, {A::NowNs() + 1000});
  queue.Save();
}

extern "C" __global__ void PutExclusive(Job job) { PutAndWait<Exclusive>(job); }
extern "C" __global__ void PutShared(Job job) { PutAndWait<Shared>(job); }
