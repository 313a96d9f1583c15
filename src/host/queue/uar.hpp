#pragma once

#include <infiniband/mlx5dv.h>

#include <cstdint>

#include "device/handle.hpp"

namespace warpverbs::inline v0_2::host {

/// A doorbell register of the NIC, mapped into this process.
///
/// The queue pair that is rung here must have been created with this page; the NIC ignores other doorbells.
class Uar {
 public:
  /// How the register was had, best first.
  enum class Kind { kDedicated, kBlueFlame, kShared };

  /// Takes the best kind that rdma-core and the kernel offer.
  ///
  /// @errors  Error: none is to be had
  explicit Uar(ibv_context* context);

  Kind kind() const { return kind_; }
  uint32_t page_id() const { return uar_->page_id; }
  uint64_t* doorbell() const { return static_cast<uint64_t*>(uar_->reg_addr); }
  /// Where completion queues that were created with this page are armed.
  uint64_t* cq_doorbell() const;

 private:
  Kind kind_ = Kind::kDedicated;
  Handle<mlx5dv_devx_uar, mlx5dv_devx_free_uar> uar_;
};

const char* Describe(Uar::Kind kind);  ///< the kind and why it was chosen

}  // namespace warpverbs::inline v0_2::host
