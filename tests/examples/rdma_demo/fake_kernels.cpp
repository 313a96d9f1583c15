// The kernels of the fake GPU: threads of the processor that may touch its memory while they run.
#include "fake_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "fake_cuda.hpp"
#include "rdma_demo/kernel.hpp"
#include "warpverbs/arch/cpu_block.hpp"

namespace rdma_demo {
namespace {

std::atomic<KernelBehavior> kernel_behavior = KernelBehavior::kDouble;

}  // namespace

void SetKernels(KernelBehavior behavior) { kernel_behavior = behavior; }

bool HasCudaKernels() { return true; }

void DoubleOnCuda(int, const DoubleJob& job, std::chrono::steady_clock::time_point deadline) {
  if (kernel_behavior == KernelBehavior::kFail)
    throw std::runtime_error("Cannot launch the kernel on cuda:0.");
  if (kernel_behavior == KernelBehavior::kNeverEnd) {
    std::this_thread::sleep_until(deadline);
    throw std::runtime_error("Cannot run the kernel on cuda:0: it did not finish in time.");
  }
  const fake_cuda::Kernel kernel;
  if (kernel_behavior == KernelBehavior::kLeaveAsIs) {
    std::copy_n(job.from, job.count, job.to);
  } else {
    warpverbs::arch::cpu::RunBlock(4, [&](uint32_t rank) { Double(rank, 4, job); });
  }
}

}  // namespace rdma_demo
