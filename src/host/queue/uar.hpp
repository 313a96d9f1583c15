#pragma once

#include <infiniband/mlx5dv.h>

#include <cstdint>

#include "device/handle.hpp"
#include "warpverbs/arch/arch.hpp"

namespace warpverbs::inline v0_2::host {

/// A doorbell register of the NIC, mapped into this process.
///
/// The NIC ignores doorbells here of queue pairs that were not created with this page.
class Uar {
 public:
  /// Kind of the register, best first.
  enum class Kind { kDedicated, kBlueFlame, kShared };

  /// Allocates the best kind that rdma-core and the kernel offer.
  ///
  /// @errors  Error: no register is available
  explicit Uar(ibv_context* context);

  Kind kind() const { return kind_; }
  /// Returns how the page is mapped, and so all its registers.
  ///
  /// @source  rdma-core v44, providers/mlx5/mlx5.h, MLX5_UAR_TYPE_*: BlueFlame pages are write-combining
  arch::Mmio mapping() const {
    return kind_ == Kind::kBlueFlame ? arch::Mmio::kWriteCombining : arch::Mmio::kUncached;
  }
  uint32_t page_id() const { return uar_->page_id; }
  uint64_t* doorbell() const { return static_cast<uint64_t*>(uar_->reg_addr); }
  /// Returns the doorbell that arms completion queues created with this page.
  uint64_t* cq_doorbell() const;

 private:
  Kind kind_ = Kind::kDedicated;
  Handle<mlx5dv_devx_uar, mlx5dv_devx_free_uar> uar_;
};

const char* Describe(Uar::Kind kind);  ///< kind and the reason for it

}  // namespace warpverbs::inline v0_2::host
