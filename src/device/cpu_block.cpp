// The blocks of libwarpverbs_device_cpu. On a GPU the kernel's launch makes them.
#include "warpverbs/arch/cpu_block.hpp"

#include <stdexcept>
#include <utility>

#include "cpu_calls.hpp"
#include "warpverbs/device_abi.h"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::device {
namespace {

thread_local bool failed = false;

}  // namespace

uint64_t FailBlock() noexcept {
  failed = true;
  return WV_ABORTED;
}

}  // namespace warpverbs::inline v0_2::device

extern "C" WARPVERBS_EXPORT int wv_run_block(void (*kernel)(void* argument, uint32_t thread), void* argument,
                                             uint32_t threads, uint32_t warp_lanes) {
  using warpverbs::device::failed;
  try {
    warpverbs::arch::cpu::RunBlock(
        threads,
        [=](uint32_t thread) {
          kernel(argument, thread);
          if (std::exchange(failed, false)) throw std::runtime_error("a lane ended while others waited");
        },
        warp_lanes);
    return 0;
  } catch (...) {
    return -1;
  }
}
