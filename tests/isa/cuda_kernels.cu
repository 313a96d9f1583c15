// Kernels that only CUDA can compile, or that only its checks use. The others are in kernels.cu.
#include "kernels.cu"

extern "C" __global__ void BatchShared(Job job) { PostBatches(SendQueue<A, Shared>(job.queue), job); }

extern "C" __global__ void CountedExclusive(Job job) {
  PostEach(SendQueue<A, Exclusive, Thread, Counted>(job.queue), job);
}
extern "C" __global__ void CountedShared(Job job) {
  PostEach(SendQueue<A, Shared, Thread, Counted>(job.queue), job);
}
extern "C" __global__ void CountedWarpShared(Job job) {
  PostTogether(SendQueue<A, Shared, Warp, Counted>(job.queue, Warp(A::ActiveLanes())), job, A::Lane());
}
extern "C" __global__ void CountedPostAndWaitEachShared(Job job) {
  PostAndWaitEach(SendQueue<A, Shared, Thread, Counted>(job.queue), job);
}
extern "C" __global__ void TracedShared(Job job) {
  PostEach(SendQueue<A, Shared, Thread, Traced>(job.queue), job);
}

// Kernels that choose between queues of one constant parameter, as users may write them. nvcc 13.0.88 reads the
// wrong first field when a struct is copied out of such a parameter under a condition.

struct Jobs {
  Job job;
  QueueView second;
  const QueueView* more;
};

extern "C" __global__ void ChooseBySelect(const __grid_constant__ Jobs jobs, uint32_t which) {
  PostEach(SendQueue<A, Exclusive>(which == 0 ? jobs.job.queue : jobs.second), jobs.job);
}

extern "C" __global__ void ChooseByPointer(const __grid_constant__ Jobs jobs, uint32_t which) {
  const QueueView* const view = which == 0 ? &jobs.job.queue : &jobs.more[which - 1];
  PostEach(SendQueue<A, Exclusive>(*view), jobs.job);
}

extern "C" __global__ void ChooseByCopy(const __grid_constant__ Jobs jobs, uint32_t which) {
  QueueView view;
  if (which == 0) {
    view = jobs.job.queue;
  } else {
    view = jobs.more[which - 1];
  }
  PostEach(SendQueue<A, Exclusive>(view), jobs.job);
}

extern "C" __global__ void ChooseByBranch(const __grid_constant__ Jobs jobs, uint32_t which) {
  if (which == 0) {
    PostEach(SendQueue<A, Exclusive>(jobs.job.queue), jobs.job);
  } else {
    PostEach(SendQueue<A, Exclusive>(jobs.more[which - 1]), jobs.job);
  }
}

// A kernel without posts, and the same kernel with a post in a rare branch.

template <class Report>
__device__ void Sum(const float4* a, const float4* b, float4* sum, uint32_t count, const Report& report) {
  constexpr uint32_t kInFlight = 4;
  const uint32_t threads = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += kInFlight * threads) {
    float4 x[kInFlight] = {}, y[kInFlight] = {};
#pragma unroll
    for (uint32_t j = 0; j < kInFlight; ++j) {
      if (i + j * threads >= count) continue;
      x[j] = a[i + j * threads];
      y[j] = b[i + j * threads];
    }
    float all = 0;
#pragma unroll
    for (uint32_t j = 0; j < kInFlight; ++j) {
      const float4 z = {x[j].x + y[j].x, x[j].y + y[j].y, x[j].z + y[j].z, x[j].w + y[j].w};
      if (i + j * threads < count) sum[i + j * threads] = z;
      all += z.x + z.y + z.z + z.w;
    }
    if (isnan(all)) [[unlikely]]
      report(i);
  }
}

extern "C" __global__ void VectorSum(const float4* a, const float4* b, float4* sum, uint32_t count,
                                     uint32_t* not_a_number) {
  Sum(a, b, sum, count, [&](uint32_t index) { *not_a_number = index; });
}

/// Writes the index of a NaN to the peer.
extern "C" __global__ void VectorSumThatMayPost(const float4* a, const float4* b, float4* sum, uint32_t count,
                                                QueueView view, RemoteMemory not_a_number) {
  Sum(a, b, sum, count, [&](uint32_t index) {
    static_cast<void>(SendQueue<A, Shared>(view).Post(WriteInline<uint32_t>{not_a_number, index}));
  });
}
