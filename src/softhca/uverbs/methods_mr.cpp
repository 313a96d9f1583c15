#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>

#include "uverbs/method.hpp"
#include "uverbs/user_memory.hpp"

namespace softhca::uverbs {
namespace {

constexpr uint32_t kRemoteChanges = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// Last flag that Linux knows outside the optional range: IB_ACCESS_FLUSH_PERSISTENT.
constexpr uint32_t kLastFlag = 1u << 9;

/// Checks access flags as Linux does.
///
/// A memory window may be bound to any region: Linux does not tell the card about IBV_ACCESS_MW_BIND. The
/// other flags that are neither checked nor refused are hints, or are meant for libibverbs.
///
/// @return  the flags that the HCA checks
/// @errors  Errno: EINVAL for an unknown flag, and for remote changes without local write; EOPNOTSUPP for a
///          feature that the device does not report
/// @source  Linux v6.12, include/rdma/ib_verbs.h, ib_check_mr_access(), and drivers/infiniband/hw/mlx5/mr.c,
///          set_mkc_access_pd_addr_fields()
uint32_t CheckAccess(uint32_t flags) {
  constexpr uint32_t kChecked = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | kRemoteChanges;
  constexpr uint32_t kIgnored =
      IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE;
  constexpr uint32_t kKnown = ((kLastFlag << 1) - 1) | IBV_ACCESS_OPTIONAL_RANGE;
  if ((flags & kRemoteChanges) != 0 && (flags & IBV_ACCESS_LOCAL_WRITE) == 0) {
    throw Errno(EINVAL, "remote write and remote atomic require local write");
  }
  if ((flags & ~kKnown) != 0) throw Errno(EINVAL, "the access flags are unknown");
  if ((flags & ~(kChecked | kIgnored)) != 0)
    throw Errno(EOPNOTSUPP, "on-demand paging and flushes are not supported");
  return flags & kChecked;
}

/// Does the same for a dma-buf, which takes fewer flags.
///
/// @source  Linux v6.12, drivers/infiniband/core/uverbs_std_types_mr.c, UVERBS_METHOD_REG_DMABUF_MR
uint32_t CheckExportAccess(uint32_t flags) {
  constexpr uint32_t kKnown =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | kRemoteChanges | IBV_ACCESS_RELAXED_ORDERING;
  if ((flags & ~kKnown) != 0) throw Errno(EINVAL, "a dma-buf does not support the access flags");
  return CheckAccess(flags);
}

void CheckPlace(uint64_t start, uint64_t iova) {
  constexpr uint64_t kPageMask = 4095;
  if ((start & kPageMask) != (iova & kPageMask)) {
    throw Errno(EINVAL, "the address and the IOVA have different offsets in their pages");
  }
}

void RegisterMr(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_reg_mr>(UVERBS_ATTR_CORE_IN);
  const uint32_t access = CheckAccess(cmd.access_flags);
  CheckPlace(cmd.start, cmd.hca_va);
  const UserRange range = FindRange(cmd.start, cmd.length, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  const uint32_t pdn = call.context().Get(cmd.pd_handle, Kind::kPd).number;
  const uint32_t key =
      call.hca().RegisterMemory({pdn, access, cmd.hca_va, range.start, cmd.length, range.Hold()});
  ib_uverbs_reg_mr_resp resp{};
  resp.mr_handle = call.context().Add(std::make_unique<Object>(Kind::kMkey, key));
  resp.lkey = key;
  resp.rkey = key;
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

/// Changes memory, protection domain and access of a region, which keeps its keys. A refused change leaves
/// the region as it was.
///
/// @source  Linux v6.12, drivers/infiniband/core/uverbs_cmd.c, ib_uverbs_rereg_mr()
void ReregisterMr(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_rereg_mr>(UVERBS_ATTR_CORE_IN);
  constexpr uint32_t kKnown =
      IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
  const auto changes = [flags = cmd.flags](uint32_t flag) { return (flags & flag) != 0; };
  if (cmd.flags == 0) throw Errno(EINVAL, "the command changes nothing");
  if (changes(~kKnown)) throw Errno(EOPNOTSUPP, "the flags are unknown");
  const uint32_t key = call.context().Get(cmd.mr_handle, Kind::kMkey).number;
  Mkey mkey = *call.hca().mkeys().Find(key);  // exists: its handle does
  if (mkey.card_memory != 0) throw Errno(EINVAL, "a region of card memory cannot be registered again");
  if (changes(IBV_REREG_MR_CHANGE_ACCESS)) mkey.access = CheckAccess(cmd.access_flags);
  if (changes(IBV_REREG_MR_CHANGE_PD)) mkey.pdn = call.context().Get(cmd.pd_handle, Kind::kPd).number;
  if (changes(IBV_REREG_MR_CHANGE_TRANSLATION)) {
    CheckPlace(cmd.start, cmd.hca_va);
    const UserRange range = FindRange(cmd.start, cmd.length, (mkey.access & IBV_ACCESS_LOCAL_WRITE) != 0);
    mkey.iova = cmd.hca_va;
    mkey.memory = range.start;
    mkey.bytes = cmd.length;
    mkey.hold = range.Hold();
  }
  call.hca().ReregisterMemory(key, mkey);
  call.request().Set(UVERBS_ATTR_CORE_OUT, ib_uverbs_rereg_mr_resp{key, key});
}

/// @source  rdma-core v44, libibverbs/man/ibv_reg_mr.3: deregistration fails if a memory window is bound
void DestroyMr(Call& call) {
  if (call.hca().mkeys().HasWindow(call.Get(UVERBS_ATTR_DESTROY_MR_HANDLE, Kind::kMkey).number))
    throw Errno(EBUSY, "a memory window is bound to the region; invalidate or free the window first");
  call.Destroy(UVERBS_ATTR_DESTROY_MR_HANDLE, Kind::kMkey);
}

void QueryMr(Call& call) {
  IoctlRequest& request = call.request();
  const uint32_t key = call.Get(UVERBS_ATTR_QUERY_MR_HANDLE, Kind::kMkey).number;
  const Mkey* const mkey = call.hca().mkeys().Find(key);  // exists: its handle does
  request.Set(UVERBS_ATTR_QUERY_MR_RESP_LKEY, key);
  request.Set(UVERBS_ATTR_QUERY_MR_RESP_RKEY, key);
  request.Set(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, mkey->bytes);
  if (request.Has(UVERBS_ATTR_QUERY_MR_RESP_IOVA)) request.Set(UVERBS_ATTR_QUERY_MR_RESP_IOVA, mkey->iova);
}

void RegisterExport(Call& call) {
  IoctlRequest& request = call.request();
  const auto offset = request.Get<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_OFFSET);
  const auto bytes = request.Get<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_LENGTH);
  const auto iova = request.Get<uint64_t>(UVERBS_ATTR_REG_DMABUF_MR_IOVA);
  const uint32_t access = CheckExportAccess(request.Get<uint32_t>(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS));
  CheckPlace(offset, iova);
  const UserRange range = FindExport(static_cast<int>(request.Handle(UVERBS_ATTR_REG_DMABUF_MR_FD)), offset,
                                     bytes, (access & IBV_ACCESS_LOCAL_WRITE) != 0);
  const uint32_t pdn = call.Get(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE, Kind::kPd).number;
  const uint32_t key = call.hca().RegisterMemory({pdn, access, iova, range.start, bytes, range.Hold()});
  request.SetHandle(UVERBS_ATTR_REG_DMABUF_MR_HANDLE,
                    call.context().Add(std::make_unique<Object>(Kind::kMkey, key)));
  request.Set(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY, key);
  request.Set(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY, key);
}

/// Registers a part of the card's memory. Its first byte has address 0.
///
/// @source  Linux v6.12, drivers/infiniband/core/uverbs_std_types_mr.c, UVERBS_METHOD_DM_MR_REG, and
///          drivers/infiniband/hw/mlx5/mr.c, mlx5_ib_reg_dm_mr()
void RegisterCardMemory(Call& call) {
  IoctlRequest& request = call.request();
  const auto offset = request.Get<uint64_t>(UVERBS_ATTR_REG_DM_MR_OFFSET);
  const auto bytes = request.Get<uint64_t>(UVERBS_ATTR_REG_DM_MR_LENGTH);
  const auto flags = request.Get<uint32_t>(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS, 0);
  constexpr uint32_t kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | kRemoteChanges |
                              IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
  if ((flags & IBV_ACCESS_ZERO_BASED) == 0 || (flags & ~kKnown) != 0)
    throw Errno(EINVAL,
                "card memory needs IBV_ACCESS_ZERO_BASED, and supports local write and remote accesses");
  const uint32_t access = CheckAccess(flags);
  const auto& object = call.Get<CardMemoryObject>(UVERBS_ATTR_REG_DM_MR_DM_HANDLE, Kind::kCardMemory);
  if (offset > object.bytes || bytes > object.bytes - offset)
    throw Errno(EINVAL, "the range exceeds the card memory of " + std::to_string(object.bytes) + " bytes");
  const uint32_t pdn = call.Get(UVERBS_ATTR_REG_DM_MR_PD_HANDLE, Kind::kPd).number;
  const CardMemory& card = call.hca().FindCardMemory(object.number);
  const uint32_t key = call.hca().RegisterMemory({.pdn = pdn,
                                                  .access = access,
                                                  .memory = card.memory.data() + offset,
                                                  .bytes = bytes,
                                                  .hold = card.hold,
                                                  .card_memory = object.number});
  request.SetHandle(UVERBS_ATTR_REG_DM_MR_HANDLE,
                    call.context().Add(std::make_unique<Object>(Kind::kMkey, key)));
  request.Set(UVERBS_ATTR_REG_DM_MR_RESP_LKEY, key);
  request.Set(UVERBS_ATTR_REG_DM_MR_RESP_RKEY, key);
}

constexpr Method kMrMethods[] = {
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_DM_MR_REG,
     "REG_DM_MR",
     RegisterCardMemory,
     {Required(UVERBS_ATTR_REG_DM_MR_HANDLE), Required(UVERBS_ATTR_REG_DM_MR_OFFSET),
      Required(UVERBS_ATTR_REG_DM_MR_LENGTH), Required(UVERBS_ATTR_REG_DM_MR_PD_HANDLE),
      Optional(UVERBS_ATTR_REG_DM_MR_ACCESS_FLAGS), Required(UVERBS_ATTR_REG_DM_MR_DM_HANDLE),
      Required(UVERBS_ATTR_REG_DM_MR_RESP_LKEY), Required(UVERBS_ATTR_REG_DM_MR_RESP_RKEY)}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_REG_DMABUF_MR,
     "REG_DMABUF_MR",
     RegisterExport,
     {Required(UVERBS_ATTR_REG_DMABUF_MR_HANDLE), Required(UVERBS_ATTR_REG_DMABUF_MR_PD_HANDLE),
      Required(UVERBS_ATTR_REG_DMABUF_MR_OFFSET), Required(UVERBS_ATTR_REG_DMABUF_MR_LENGTH),
      Required(UVERBS_ATTR_REG_DMABUF_MR_IOVA), Required(UVERBS_ATTR_REG_DMABUF_MR_FD),
      Required(UVERBS_ATTR_REG_DMABUF_MR_ACCESS_FLAGS), Required(UVERBS_ATTR_REG_DMABUF_MR_RESP_LKEY),
      Required(UVERBS_ATTR_REG_DMABUF_MR_RESP_RKEY)}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_QUERY_MR,
     "QUERY_MR",
     QueryMr,
     {Required(UVERBS_ATTR_QUERY_MR_HANDLE), Required(UVERBS_ATTR_QUERY_MR_RESP_LKEY),
      Required(UVERBS_ATTR_QUERY_MR_RESP_RKEY), Required(UVERBS_ATTR_QUERY_MR_RESP_LENGTH),
      Optional(UVERBS_ATTR_QUERY_MR_RESP_IOVA)}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_MR_DESTROY,
     "DEREG_MR",
     DestroyMr,
     {Required(UVERBS_ATTR_DESTROY_MR_HANDLE)}},
};

constexpr WriteCommand kMrCommands[] = {
    {IB_USER_VERBS_CMD_REG_MR, "REG_MR", RegisterMr, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp)},
    {IB_USER_VERBS_CMD_REREG_MR, "REREG_MR", ReregisterMr, sizeof(ib_uverbs_rereg_mr),
     sizeof(ib_uverbs_rereg_mr_resp)},
};

}  // namespace

std::span<const Method> MrMethods() { return kMrMethods; }
std::span<const WriteCommand> MrCommands() { return kMrCommands; }

}  // namespace softhca::uverbs
