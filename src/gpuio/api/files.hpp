#pragma once

#include <cstdint>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A registered file, as prep_io needs it.
struct RegisteredFile {
  uint64_t inode = 0;
  bool reads = false, writes = false;
};

/// Finds a file by its descriptor, or the negative value that hf3fs_reg_fd() returned.
///
/// @return  0; EINVAL: no descriptor has this number; EBADF: it is not registered
int FindRegistered(int fd, RegisteredFile& file);

}  // namespace warpverbs::inline v0_2::gpuio
