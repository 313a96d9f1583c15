#pragma once

#include <nvshmem.h>
#include <nvshmemx.h>

#include <string>

#include "ranks.hpp"

namespace stacks {

/// Makes this process a processing element of two, on the rank's GPU.
///
/// @param id_file  does not exist before
inline bool InitNvshmem(int rank, const std::string& id_file) {
  UseGpu(rank);
  nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
  if (rank == 0) nvshmemx_get_uniqueid(&id);
  id = Share(rank, id_file, id);
  nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
  nvshmemx_set_attr_uniqueid_args(rank, 2, &id, &attributes);
  return nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes) == 0;
}

}  // namespace stacks
