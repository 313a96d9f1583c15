// The blocks of libwarpverbs_device_cpu. On a GPU the kernel's launch makes them.
#include "warpverbs/arch/cpu_block.hpp"

#include "warpverbs/device_abi.h"
#include "warpverbs/version.hpp"

extern "C" WARPVERBS_EXPORT int wv_run_block(void (*kernel)(void* argument, uint32_t thread), void* argument,
                                             uint32_t threads, uint32_t warp_lanes) {
  try {
    warpverbs::arch::cpu::RunBlock(
        threads, [=](uint32_t thread) { kernel(argument, thread); }, warp_lanes);
    return 0;
  } catch (...) {
    return -1;
  }
}
