#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include "uverbs/method.hpp"

namespace softhca::uverbs {
namespace {

void AllocPd(Call& call) {
  Context& context = call.context();
  const uint32_t pdn = call.hca().AllocPd();
  ib_uverbs_alloc_pd_resp resp{};
  resp.pd_handle = context.Add(std::make_unique<Object>(Kind::kPd, pdn));
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
  call.request().Set(UVERBS_ATTR_UHW_OUT, mlx5_ib_alloc_pd_resp{pdn});
}

void DestroyPd(Call& call) { call.Destroy(UVERBS_ATTR_DESTROY_PD_HANDLE, Kind::kPd); }

void QueryPd(Call& call) {
  const Object& pd = call.Get(MLX5_IB_ATTR_QUERY_PD_HANDLE, Kind::kPd);
  call.request().Set(MLX5_IB_ATTR_QUERY_PD_RESP_PDN, pd.number);
}

constexpr Method kPdMethods[] = {
    {UVERBS_OBJECT_PD,
     UVERBS_METHOD_PD_DESTROY,
     "DEALLOC_PD",
     DestroyPd,
     {Required(UVERBS_ATTR_DESTROY_PD_HANDLE)}},
    {UVERBS_OBJECT_PD,
     MLX5_IB_METHOD_PD_QUERY,
     "QUERY_PD",
     QueryPd,
     {Required(MLX5_IB_ATTR_QUERY_PD_HANDLE), Required(MLX5_IB_ATTR_QUERY_PD_RESP_PDN)}},
};

constexpr WriteCommand kPdCommands[] = {
    {IB_USER_VERBS_CMD_ALLOC_PD, "ALLOC_PD", AllocPd, sizeof(ib_uverbs_alloc_pd),
     sizeof(ib_uverbs_alloc_pd_resp)},
};

}  // namespace

std::span<const Method> PdMethods() { return kPdMethods; }
std::span<const WriteCommand> PdCommands() { return kPdCommands; }

}  // namespace softhca::uverbs
