#include "queue/uar.hpp"

#include <cerrno>
#include <cstddef>

#include "warpverbs/host/error.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

// MLX5DV_UAR_ALLOC_TYPE_NC_DEDICATED of rdma-core 45; older versions return EOPNOTSUPP.
constexpr uint32_t kDedicatedFlag = 1u << 31;

struct Candidate {
  Uar::Kind kind;
  uint32_t flags;
};
/// Best first.
constexpr Candidate kCandidates[] = {
    {Uar::Kind::kDedicated, kDedicatedFlag},
    {Uar::Kind::kBlueFlame, MLX5DV_UAR_ALLOC_TYPE_BF},
    {Uar::Kind::kShared, MLX5DV_UAR_ALLOC_TYPE_NC},
};

}  // namespace

Uar::Uar(ibv_context* context) {
  int error = EOPNOTSUPP;  // replaced by the failure of a supported kind
  for (const Candidate& candidate : kCandidates) {
    uar_.reset(mlx5dv_devx_alloc_uar(context, candidate.flags));
    if (uar_) {
      kind_ = candidate.kind;
      return;
    }
    if (error == EOPNOTSUPP) error = errno;
  }
  throw Error::FromErrno("allocate", std::string("a doorbell register on ") + context->device->name, error,
                         "Close endpoints or other programs of this device: its register pages are used up");
}

uint64_t* Uar::cq_doorbell() const {
  return reinterpret_cast<uint64_t*>(static_cast<std::byte*>(uar_->base_addr) + mlx5::kUarCqDoorbell);
}

const char* Describe(Uar::Kind kind) {
  switch (kind) {
    case Uar::Kind::kDedicated:
      return "dedicated, uncached";
    case Uar::Kind::kBlueFlame:
      return "dedicated BlueFlame register (rdma-core or the kernel has no dedicated uncached one)";
    case Uar::Kind::kShared:
      return "uncached, shared by all queues of this context (no dedicated register was available)";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
