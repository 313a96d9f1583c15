#pragma once

#include <cstdint>
#include <exception>

/// Calls of warps and blocks on the processor, where a thread may end while others wait for it.
///
/// The headers then throw. But no exception may leave a function that other languages call: their frames
/// cannot be unwound.
namespace warpverbs::inline v0_2::device {

/// Makes the block of this thread fail, and returns WV_ABORTED.
uint64_t FailBlock() noexcept;

}  // namespace warpverbs::inline v0_2::device

#define WARPVERBS_ABI_TRY(call)       \
  [&]() -> uint64_t {                 \
    try {                             \
      return call;                    \
    } catch (const std::exception&) { \
      return FailBlock();             \
    }                                 \
  }()
