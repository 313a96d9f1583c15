// The kernel for AMD GPUs, as a module for hipModuleLoad(). Needs no header of ROCm.
#include "kernel.hpp"
#include "warpverbs/arch/hip.hpp"

extern "C" __attribute__((global)) void Kernel(Job job, warpverbs::device::Status* result) {
  FillAndWrite<warpverbs::arch::Hip>(job, *result);
}
