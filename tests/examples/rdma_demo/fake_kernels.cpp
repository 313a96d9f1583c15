// Kernels of the fake GPU: threads of the processor, which may touch its memory while they run.
#include "fake_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "fake_cuda.hpp"
#include "rdma_demo/cuda.hpp"
#include "warpverbs/arch/cpu_block.hpp"

namespace rdma_demo {
namespace {

std::atomic<KernelHabit> kernel_habit = KernelHabit::kDouble;

}  // namespace

void SetKernels(KernelHabit habit) { kernel_habit = habit; }

bool HasCudaKernels() { return true; }

void DoubleOnCuda(int, const DoubleJob& job, std::chrono::steady_clock::time_point deadline) {
  if (kernel_habit == KernelHabit::kFail) throw std::runtime_error("Cannot launch the kernel on cuda:0.");
  if (kernel_habit == KernelHabit::kNeverEnd) {
    std::this_thread::sleep_until(deadline);
    throw std::runtime_error("Cannot run the kernel on cuda:0: it did not finish in time.");
  }
  const fake_cuda::Kernel kernel;
  if (kernel_habit == KernelHabit::kLeaveAsIs) {
    std::copy_n(job.from, job.count, job.to);
  } else {
    warpverbs::arch::cpu::RunBlock(4, [&](uint32_t rank) { Double(rank, 4, job); });
  }
}

}  // namespace rdma_demo
