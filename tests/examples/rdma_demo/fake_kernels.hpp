#pragma once

namespace rdma_demo {

/// What the kernels of this test's GPU do.
enum class KernelHabit { kDouble, kLeaveAsIs, kFail, kNeverEnd };

void SetKernels(KernelHabit habit);

}  // namespace rdma_demo
