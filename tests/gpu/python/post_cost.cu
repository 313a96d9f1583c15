// Measures a post by the headers in CUDA C++, for comparison with kernels in Python: post_cost.py loads it.
#include <cuda_runtime.h>

#include "warpverbs/arch/cuda.hpp"
#include "warpverbs/device/operations.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs {
namespace {

using A = arch::CudaSystem;

__global__ void Post(const device::QueueView* view, device::RemoteMemory remote, device::LocalMemory local,
                     uint32_t posts, uint64_t timeout_ns, uint64_t* outcome) {
  const device::WaitLimit limit{.deadline_ns = A::NowNs() + timeout_ns};
  device::SendQueue<A, device::Shared> queue(*view);
  // What a poster learns by its first post is not measured.
  device::Posted posted = queue.Post(device::Write(remote, local), limit);
  if (posted.status.ok()) static_cast<void>(queue.Wait(posted.ticket, limit));
  const uint64_t begin = clock64();
  for (uint32_t i = 0; i < posts && posted.status.ok(); ++i)
    posted = queue.Post(device::Write(remote, local), limit);
  outcome[1] = clock64() - begin;
  const device::Status done = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  outcome[0] = static_cast<uint64_t>(done.code);
}

}  // namespace
}  // namespace warpverbs

/// Posts writes of 8 bytes by one thread.
///
/// @param outcome  in memory of the GPU: code, cycles
/// @return  an error of CUDA, or 0
extern "C" int PostCost(uint64_t queue, uint64_t remote, uint32_t rkey, uint64_t local,
                        uint32_t lkey, uint32_t posts, uint64_t timeout_ns, uint64_t outcome, void* stream) {
  using namespace warpverbs;
  Post<<<1, 1, 0, static_cast<cudaStream_t>(stream)>>>(
      reinterpret_cast<const device::QueueView*>(queue), {remote, mlx5::Be32{rkey}}, {local, 8, mlx5::Be32{lkey}},
      posts, timeout_ns, reinterpret_cast<uint64_t*>(outcome));
  return static_cast<int>(cudaGetLastError());
}
