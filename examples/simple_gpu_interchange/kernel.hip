// The kernel for AMD GPUs, needing no header of ROCm.
#include "kernel.hpp"
#include "warpverbs/arch/hip.hpp"

/// The calling thread's block.
struct HipTeam {
  WARPVERBS_DEVICE uint32_t Rank() const { return __builtin_amdgcn_workitem_id_x(); }
  WARPVERBS_DEVICE uint32_t Size() const { return __builtin_amdgcn_workgroup_size_x(); }
  WARPVERBS_DEVICE void Sync() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
};

extern "C" __attribute__((global)) void Kernel(Job job, Outcome* outcome) {
  Interchange<warpverbs::arch::Hip>(HipTeam{}, job, *outcome);
}
