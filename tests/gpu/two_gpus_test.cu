// Writes from the memory of one GPU to that of another.
#include "pair.hpp"

namespace warpverbs::gpu {
namespace {

using device::Exclusive;
using device::SendQueue;

class TwoGpus : public Placed {
 protected:
  void SetUp() override {
    if (host::Gpu::Count() < 2) GTEST_SKIP() << "this machine has one GPU";
  }
};
WARPVERBS_PLACED(TwoGpus);

struct Job {
  QueueView queue;
  uint8_t* source;
  LocalMemory local;
  RemoteMemory remote;
  uint64_t bytes, round;
};

template <class A>
__global__ void PutAll(Job job, Status* status) {
  for (uint64_t i = threadIdx.x; i < job.bytes; i += blockDim.x) job.source[i] = ByteOf(job.round, i);
  __threadfence_system();
  __syncthreads();
  if (threadIdx.x != 0) return;
  SendQueue<A, Exclusive> queue(job.queue);
  const Posted posted = queue.Post(device::Write(job.remote, job.local), Within<A>());
  *status = posted.status.ok() ? queue.Wait(posted.ticket, Within<A>()) : posted.status;
}

__global__ void CountWrong(const uint8_t* bytes, uint64_t count, uint64_t round, unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) mine += bytes[i] != ByteOf(round, i);
  atomicAdd(wrong, mine);
}

TEST_P(TwoGpus, WritesArriveInTheOtherGpusMemory) {
  int device = -1;
  CheckCuda(cudaSetDevice(1), "use cuda:1");
  const Pair pair({.placement = GetParam(), .gpu_a = 0, .gpu_b = 1});
  CheckCuda(cudaGetDevice(&device), "ask for the current device");
  EXPECT_EQ(device, 1) << "the library restores the caller's device";
  const Mapped<Status> status(pair.gpu_a);
  const Mapped<unsigned long long> wrong(pair.gpu_b);
  uint64_t round = 0;
  for (const uint64_t bytes : {8, 100, 4096, 1 << 20}) {
    const Job job{
        pair.a.View(), pair.source.data<uint8_t>(), pair.source.Local(0, bytes), pair.target.Remote(0), bytes,
        ++round};
    WithArch(pair.scope(),
             [&](auto arch) { RunKernel(pair.gpu_a, 1, 256, PutAll<decltype(arch)>, job, status.get()); });
    ASSERT_TRUE(IsOk(*status)) << bytes;
    RunKernel(pair.gpu_b, 1, 256, CountWrong, pair.target.data<uint8_t>(), bytes, round, wrong.get());
    EXPECT_EQ(*wrong, 0U) << bytes;
  }
}

}  // namespace
}  // namespace warpverbs::gpu
