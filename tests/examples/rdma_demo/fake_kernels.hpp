#pragma once

namespace rdma_demo {

/// The behavior of the fake GPU's kernels.
enum class KernelBehavior { kDouble, kLeaveAsIs, kFail, kNeverEnd };

void SetKernels(KernelBehavior behavior);

}  // namespace rdma_demo
