// Kernels of kernels.cu that post through the device library, as a kernel in another language does. Their
// poster already knows the queue, so that no post needs the slow path.
#include "kernels.cu"
#include "warpverbs/device_abi.h"

namespace {

WARPVERBS_DEVICE uint64_t AddressOf(const void* object) { return reinterpret_cast<uint64_t>(object); }

/// Each thread of a group writes its own 8 bytes.
template <class Write>
WARPVERBS_DEVICE void PostEach(const Job& job, wv_poster poster, uint32_t rank, const Write& write) {
  const uint64_t offset = rank * sizeof(uint64_t);
  uint64_t result = WV_OK;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && wv_code(result) == WV_OK; ++i) {
    result = write(AddressOf(&job.queue), AddressOf(&poster), job.remote.addr + offset, job.remote.rkey.raw,
                   job.local.addr + offset, job.local.bytes, job.local.lkey.raw, WV_CQE_ALWAYS, 0, 0);
  }
  job.result[rank] = {.code = static_cast<Code>(wv_code(result))};
}

template <class Begin, class Submit>
WARPVERBS_DEVICE void PostBatches(const Job& job, wv_poster poster, const Begin& begin,
                                  const Submit& submit) {
  wv_batch batch;
  uint64_t result = WV_OK;
#pragma unroll 1
  for (uint32_t i = 0; i < job.count && wv_code(result) == WV_OK; ++i) {
    begin(AddressOf(&job.queue), AddressOf(&poster), AddressOf(&batch), kBatch, 0, 0);
#pragma unroll 1
    for (uint32_t j = 0; j < kBatch; ++j) {
      wv_add_write_thread(AddressOf(&job.queue), AddressOf(&batch), job.remote.addr, job.remote.rkey.raw,
                          job.local.addr, job.local.bytes, job.local.lkey.raw, WV_CQE_ALWAYS);
    }
    result = submit(AddressOf(&job.queue), AddressOf(&poster), AddressOf(&batch));
  }
  *job.result = {.code = static_cast<Code>(wv_code(result))};
}

}  // namespace

extern "C" __global__ void BatchShared(Job job) { PostBatches(SendQueue<A, Shared>(job.queue), job); }

// SCOPE is gpu or system.
#define JOIN(a, b) a##b
#define SCOPED(name, scope) JOIN(name, scope)
#define CALL(name) [](auto... arguments) { return SCOPED(wv_##name##_, SCOPE)(arguments...); }

#define POST(kernel, rank, name) \
  extern "C" __global__ void kernel(Job job, wv_poster poster) { PostEach(job, poster, rank, CALL(name)); }
POST(LibraryPostExclusive, 0, write_thread_exclusive)
POST(LibraryPostShared, 0, write_thread_shared)
POST(LibraryPostRelaxedShared, 0, write_thread_relaxed)
POST(LibraryWarpExclusive, A::Lane(), write_lanes_exclusive)
POST(LibraryWarpShared, A::Lane(), write_lanes_shared)

#define BATCH(kernel, sharing)                                                             \
  extern "C" __global__ void kernel(Job job, wv_poster poster) {                           \
    PostBatches(job, poster, CALL(begin_thread_##sharing), CALL(submit_thread_##sharing)); \
  }
BATCH(LibraryBatchExclusive, exclusive)
BATCH(LibraryBatchShared, shared)
