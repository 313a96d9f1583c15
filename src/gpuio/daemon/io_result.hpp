#pragma once

#include <cerrno>
#include <cstdint>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Returns the result of an I/O as applications know it: bytes, or one of the errors that a completion may
/// have.
///
/// @param result  bytes or -errno
/// @param asked   bytes of the request: more cannot have been moved
inline int64_t IoResult(int64_t result, uint64_t asked) {
  if (result >= 0) return static_cast<uint64_t>(result) <= asked ? result : -EIO;
  switch (-result) {
    case ENOENT:
    case EACCES:
    case EINVAL:
    case EROFS:
    case ENOSPC:
    case EREMOTEIO:
    case ENODATA:
      return result;
    case EPERM:
      return -EACCES;
    case EDQUOT:
      return -ENOSPC;
    case ESTALE:
      return -ENOENT;
    case ECANCELED:
    case ETIMEDOUT:
      return -EREMOTEIO;
    default:
      return -EIO;
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
