#pragma once

#include <infiniband/mlx5dv.h>

#include <cstddef>
#include <cstdint>

#include "device/handle.hpp"

namespace warpverbs::inline v0_2::host {

class DmaBuf;

/// User memory for firmware objects: rings and doorbell records, by offset.
class Umem {
 public:
  /// @param memory  page-aligned, in whole pages; must outlive this
  /// @errors  Error: names the limit on locked memory if that is the cause
  Umem(ibv_context* context, void* memory, size_t bytes);

  /// @param buffer  whole pages; all of it is registered
  /// @errors  Error
  Umem(ibv_context* context, const DmaBuf& buffer);

  uint32_t id() const { return umem_->umem_id; }

 private:
  Handle<mlx5dv_devx_umem, mlx5dv_devx_umem_dereg> umem_;
};

}  // namespace warpverbs::inline v0_2::host
