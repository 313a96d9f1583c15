#pragma once

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>

#include "gpuio/control/log.hpp"
#include "gpuio/control/names.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio.h"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Says whether a mount is one that the structs have room for.
inline bool IsMountArgument(const char* mount) {
  return mount != nullptr && mount[0] != '\0' &&
         strnlen(mount, sizeof(hf3fs_iov::mount_point)) < sizeof(hf3fs_iov::mount_point);
}

inline IovId IdOf(const void* bytes) {
  IovId id;
  std::memcpy(id.data(), bytes, id.size());
  return id;
}

/// Runs the work of a C function, which returns 0 or a negative errno value. No exception leaves a C
/// function.
template <class Work>
auto Guarded(const Work& work, decltype(work()) otherwise = {}) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, error.what());
    return otherwise;
  }
}
template <class Work>
int GuardedErrno(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (const host::Error& error) {
    Log(LogLevel::kError, error.what());
    return error.error_number() == 0 ? -EIO : -error.error_number();
  } catch (const std::exception& error) {
    Log(LogLevel::kError, error.what());
    return -EIO;
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
