#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

/// Makes a window of type 1 or 2. Only peers of type 2 may free it.
///
/// @source  Linux v6.12, drivers/infiniband/hw/mlx5/mr.c, mlx5_ib_alloc_mw()
void AllocMw(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_alloc_mw>(UVERBS_ATTR_CORE_IN);
  if (cmd.mw_type != IBV_MW_TYPE_1 && cmd.mw_type != IBV_MW_TYPE_2) {
    throw Errno(EINVAL, "a memory window has type 1 or 2, not " + std::to_string(cmd.mw_type));
  }
  const uint32_t pdn = call.context().Get(cmd.pd_handle, Kind::kPd).number;
  const uint32_t key = call.hca().AllocWindow(pdn, cmd.mw_type == IBV_MW_TYPE_2);
  ib_uverbs_alloc_mw_resp resp{};
  resp.mw_handle = call.context().Add(std::make_unique<Object>(Kind::kWindow, key));
  resp.rkey = key;
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

void DeallocMw(Call& call) { call.Destroy(UVERBS_ATTR_DESTROY_MW_HANDLE, Kind::kWindow); }

constexpr Method kMwMethods[] = {
    {UVERBS_OBJECT_MW,
     UVERBS_METHOD_MW_DESTROY,
     "DEALLOC_MW",
     DeallocMw,
     {Required(UVERBS_ATTR_DESTROY_MW_HANDLE)}},
};

constexpr WriteCommand kMwCommands[] = {
    {IB_USER_VERBS_CMD_ALLOC_MW, "ALLOC_MW", AllocMw, sizeof(ib_uverbs_alloc_mw),
     sizeof(ib_uverbs_alloc_mw_resp)},
};

}  // namespace

std::span<const Method> MwMethods() { return kMwMethods; }
std::span<const WriteCommand> MwCommands() { return kMwCommands; }

}  // namespace softhca::uverbs
