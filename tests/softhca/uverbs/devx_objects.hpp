#pragma once

#include <gtest/gtest.h>
#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cerrno>
#include <memory>

#include "warpverbs/mlx5/commands.hpp"

/// Creates queues by firmware commands through libmlx5. Uses nothing of this project but field offsets.
namespace kernel_abi {

namespace mlx5 = warpverbs::mlx5;

struct FreeUar {
  void operator()(mlx5dv_devx_uar* uar) const { mlx5dv_devx_free_uar(uar); }
};
struct DeregisterUmem {
  void operator()(mlx5dv_devx_umem* umem) const { EXPECT_EQ(mlx5dv_devx_umem_dereg(umem), 0); }
};
struct DestroyObject {
  void operator()(mlx5dv_devx_obj* object) const { EXPECT_EQ(mlx5dv_devx_obj_destroy(object), 0); }
};
struct Unmap {
  static constexpr size_t kBytes = 64 * 1024;
  void operator()(void* memory) const { munmap(memory, kBytes); }
};
using Uar = std::unique_ptr<mlx5dv_devx_uar, FreeUar>;
using Umem = std::unique_ptr<mlx5dv_devx_umem, DeregisterUmem>;
using DevxObject = std::unique_ptr<mlx5dv_devx_obj, DestroyObject>;
using Pages = std::unique_ptr<void, Unmap>;

inline Pages Map() {
  return Pages(mmap(nullptr, Unmap::kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

/// A completion queue and a queue pair in one umem.
class DevxQueues {
 public:
  static constexpr uint32_t kLogDepth = 4;
  static constexpr uint64_t kSendOffset = 0x1000, kRecords = 0x2000;

  explicit DevxQueues(ibv_context* context) : context_(context), pd_(ibv_alloc_pd(context)), pages_(Map()) {
    uar_.reset(mlx5dv_devx_alloc_uar(context, MLX5DV_UAR_ALLOC_TYPE_BF));
    umem_.reset(mlx5dv_devx_umem_reg(context, pages_.get(), Unmap::kBytes, IBV_ACCESS_LOCAL_WRITE));
    mlx5dv_pd dv_pd{};
    mlx5dv_obj object{};
    object.pd = {pd_, &dv_pd};
    EXPECT_EQ(mlx5dv_init_obj(&object, MLX5DV_OBJ_PD), 0);
    pdn_ = dv_pd.pdn;
    cq_.reset(Create(CqCommand(), &cqn_));
    if (cq_ != nullptr) qp_.reset(Create(QpCommand(), &qpn_));
  }
  ~DevxQueues() {
    qp_.reset();
    cq_.reset();
    umem_.reset();
    uar_.reset();
    EXPECT_EQ(ibv_dealloc_pd(pd_), 0);
  }
  DevxQueues(const DevxQueues&) = delete;
  DevxQueues& operator=(const DevxQueues&) = delete;

  mlx5::Mailbox<mlx5::create_cq_in::kBytes> CqCommand() const {
    using namespace mlx5;
    constexpr uint32_t kCqc = create_cq_in::kCqc;
    uint32_t eqn = 0;
    EXPECT_EQ(mlx5dv_devx_query_eqn(context_, 0, &eqn), 0);
    Mailbox<create_cq_in::kBytes> in;
    in.Set(command_in::kOpcode, CommandOpcode::kCreateCq)
        .Set(cqc::kLogCqSize.At(kCqc), kLogDepth)
        .Set(cqc::kUarPage.At(kCqc), uar_->page_id)
        .Set(cqc::kCEqn.At(kCqc), eqn)
        .Set(cqc::kDbrUmemValid.At(kCqc), true)
        .Set(cqc::kDbrUmemId.At(kCqc), umem_->umem_id)
        .Set(cqc::kDbrAddr.At(kCqc), kRecords)
        .Set(create_cq_in::kCqUmemValid, true)
        .Set(create_cq_in::kCqUmemId, umem_->umem_id);
    return in;
  }

  mlx5::Mailbox<mlx5::create_qp_in::kBytes> QpCommand() const {
    using namespace mlx5;
    constexpr uint32_t kQpc = create_qp_in::kQpc;
    Mailbox<create_qp_in::kBytes> in;
    in.Set(command_in::kOpcode, CommandOpcode::kCreateQp)
        .Set(qpc::kPmState.At(kQpc), PathMigration::kMigrated)
        .Set(qpc::kPd.At(kQpc), pdn_)
        .Set(qpc::kLogSqSize.At(kQpc), kLogDepth)
        .Set(qpc::kUarPage.At(kQpc), uar_->page_id)
        .Set(qpc::kUserIndex.At(kQpc), 0x5a5a)
        .Set(qpc::kCqnSnd.At(kQpc), cqn_)
        .Set(qpc::kRqType.At(kQpc), RqType::kNone)
        .Set(qpc::kDbrUmemValid.At(kQpc), true)
        .Set(qpc::kDbrUmemId.At(kQpc), umem_->umem_id)
        .Set(qpc::kDbrAddr.At(kQpc), kRecords + 64)
        .Set(create_qp_in::kWqUmemValid, true)
        .Set(create_qp_in::kWqUmemId, umem_->umem_id)
        .Set(create_qp_in::kWqUmemOffset, kSendOffset);
    return in;
  }

  template <class In>
  mlx5dv_devx_obj* Create(const In& in, uint32_t* number) const {
    mlx5::Mailbox<mlx5::kCommandOutBytes> out;
    mlx5dv_devx_obj* const object =
        mlx5dv_devx_obj_create(context_, in.data(), In::size(), out.data(), out.size());
    if (number != nullptr) *number = out.Get(mlx5::command_out::kObjectNumber);
    return object;
  }

  /// Creates an object that must be refused, and returns the command's status.
  template <class In>
  mlx5::CommandStatus Refusal(const In& in) const {
    mlx5::Mailbox<mlx5::kCommandOutBytes> out;
    errno = 0;
    EXPECT_EQ(mlx5dv_devx_obj_create(context_, in.data(), In::size(), out.data(), out.size()), nullptr);
    EXPECT_EQ(errno, EREMOTEIO);
    EXPECT_NE(out.Get(mlx5::command_out::kSyndrome), 0u);
    return out.Get(mlx5::command_out::kStatus);
  }

  ibv_context* context() const { return context_; }
  ibv_pd* pd() const { return pd_; }
  mlx5dv_devx_umem* umem() const { return umem_.get(); }
  mlx5dv_devx_obj* cq() const { return cq_.get(); }
  mlx5dv_devx_obj* qp() const { return qp_.get(); }
  uint32_t pdn() const { return pdn_; }
  uint32_t qpn() const { return qpn_; }
  uint32_t cqn() const { return cqn_; }
  uint32_t uar_page() const { return uar_->page_id; }
  void* memory() const { return pages_.get(); }

 private:
  ibv_context* context_;
  ibv_pd* pd_;
  Pages pages_;
  Uar uar_;
  Umem umem_;
  uint32_t pdn_ = 0, cqn_ = 0, qpn_ = 0;
  DevxObject cq_, qp_;
};

}  // namespace kernel_abi
