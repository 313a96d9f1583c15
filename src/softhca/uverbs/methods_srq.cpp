#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>

#include "core/limits.hpp"
#include "uverbs/method.hpp"
#include "uverbs/user_memory.hpp"

namespace softhca::uverbs {
namespace {

/// Reads the queue layout of libmlx5: slots of a power of two bytes, each with a link to the next.
ReceiveQueueConfig ReadQueue(const IoctlRequest& request, const mlx5_ib_create_srq& driver) {
  const auto max_wr = request.Get<uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_WR);
  const auto max_sge = request.Get<uint32_t>(UVERBS_ATTR_CREATE_SRQ_MAX_SGE);
  if (max_wr >= 1u << limits::kLogQueueDepth || max_sge > limits::kSrqSegments) {
    throw Errno(EINVAL, "a shared receive queue of " + std::to_string(max_wr) + " receives of " +
                            std::to_string(max_sge) + " segments is out of range");
  }
  constexpr uint32_t kSmallestSlot = 32;
  const uint64_t slot = sizeof(mlx5::SrqNextSegment) + uint64_t{max_sge} * mlx5::kSegmentBytes;
  ReceiveQueueConfig queue;
  queue.depth = std::bit_ceil(max_wr + 1);
  queue.stride = std::bit_ceil(static_cast<uint32_t>(std::max<uint64_t>(slot, kSmallestSlot)));
  queue.ring = UserQueue(driver.buf_addr, uint64_t{queue.depth} * queue.stride);
  queue.dbr = static_cast<mlx5::Be32*>(UserRecord(driver.db_addr));
  queue.linked = true;
  return queue;
}

void CreateSrq(Call& call) {
  IoctlRequest& request = call.request();
  const auto type = request.Get<uint8_t>(UVERBS_ATTR_CREATE_SRQ_TYPE);
  if (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)
    throw Errno(EOPNOTSUPP, "shared receive queues that match tags are not supported");
  const auto driver = request.GetExtensible<mlx5_ib_create_srq>(UVERBS_ATTR_UHW_IN);
  if (driver.flags != 0) throw Errno(EOPNOTSUPP, "signatures are not supported");
  SrqConfig config;
  config.queue = ReadQueue(request, driver);
  config.pdn = call.Get(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, Kind::kPd).number;
  if (type == IBV_SRQT_XRC) {
    config.xrcd = call.Get(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, Kind::kXrcd).number;
    config.cqn = call.Get(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, Kind::kCq).number;
    config.user_index = driver.uidx;
  }
  const uint32_t max_sge = (config.queue.stride - sizeof(mlx5::SrqNextSegment)) / mlx5::kSegmentBytes;
  auto object = std::make_unique<SrqObject>(
      EventSource(call.Pipe<ib_uverbs_async_event_desc>(UVERBS_ATTR_CREATE_SRQ_EVENT_FD),
                  request.Get<uint64_t>(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE)),
      config.queue.depth - 1, max_sge);
  config.on_limit = [srq = object.get()] { srq->events.SendAsync(IBV_EVENT_SRQ_LIMIT_REACHED); };
  const uint32_t srqn = object->number = call.hca().CreateSrq(std::move(config));
  const SrqObject& srq = *object;
  request.SetHandle(UVERBS_ATTR_CREATE_SRQ_HANDLE, call.context().Add(std::move(object)));
  request.Set(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, srq.max_wr);
  request.Set(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, srq.max_sge);
  request.Set(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, srqn);
  request.Set(UVERBS_ATTR_UHW_OUT, mlx5_ib_create_srq_resp{srqn, 0});
}

void DestroySrq(Call& call) {
  constexpr uint16_t kHandle = UVERBS_ATTR_DESTROY_SRQ_HANDLE;
  EventSource events = call.Get<SrqObject>(kHandle, Kind::kSrq).events;
  call.Destroy(kHandle, Kind::kSrq);
  call.request().Set(UVERBS_ATTR_DESTROY_SRQ_RESP, ib_uverbs_destroy_srq_resp{events.Close()});
}

void ModifySrq(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_modify_srq>(UVERBS_ATTR_CORE_IN);
  if ((cmd.attr_mask & ~uint32_t{IBV_SRQ_LIMIT}) != 0)
    throw Errno(EINVAL, "a shared receive queue cannot be resized");
  const auto& srq = call.context().Get<SrqObject>(cmd.srq_handle, Kind::kSrq);
  if (cmd.srq_limit > srq.max_wr) throw Errno(EINVAL, "the limit exceeds the queue");
  if ((cmd.attr_mask & IBV_SRQ_LIMIT) != 0) call.hca().SetSrqLimit(srq.number, cmd.srq_limit);
}

void QuerySrq(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_query_srq>(UVERBS_ATTR_CORE_IN);
  const auto& srq = call.context().Get<SrqObject>(cmd.srq_handle, Kind::kSrq);
  ib_uverbs_query_srq_resp resp{};
  resp.max_wr = srq.max_wr;
  resp.max_sge = srq.max_sge;
  resp.srq_limit = call.hca().FindSrq(srq.number)->limit;
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

constexpr Method kSrqMethods[] = {
    {UVERBS_OBJECT_SRQ,
     UVERBS_METHOD_SRQ_CREATE,
     "CREATE_SRQ",
     CreateSrq,
     {Required(UVERBS_ATTR_CREATE_SRQ_HANDLE), Required(UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
      Required(UVERBS_ATTR_CREATE_SRQ_USER_HANDLE), Required(UVERBS_ATTR_CREATE_SRQ_MAX_WR),
      Required(UVERBS_ATTR_CREATE_SRQ_MAX_SGE), Required(UVERBS_ATTR_CREATE_SRQ_LIMIT),
      Required(UVERBS_ATTR_CREATE_SRQ_TYPE), Optional(UVERBS_ATTR_CREATE_SRQ_EVENT_FD),
      Optional(UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE), Optional(UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE),
      Optional(UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM), Required(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR),
      Required(UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE), Required(UVERBS_ATTR_UHW_IN),
      Optional(UVERBS_ATTR_UHW_OUT)}},
    {UVERBS_OBJECT_SRQ,
     UVERBS_METHOD_SRQ_DESTROY,
     "DESTROY_SRQ",
     DestroySrq,
     {Required(UVERBS_ATTR_DESTROY_SRQ_HANDLE), Required(UVERBS_ATTR_DESTROY_SRQ_RESP)}},
};

constexpr WriteCommand kSrqCommands[] = {
    {IB_USER_VERBS_CMD_MODIFY_SRQ, "MODIFY_SRQ", ModifySrq, sizeof(ib_uverbs_modify_srq), 0},
    {IB_USER_VERBS_CMD_QUERY_SRQ, "QUERY_SRQ", QuerySrq, sizeof(ib_uverbs_query_srq),
     sizeof(ib_uverbs_query_srq_resp)},
};

}  // namespace

std::span<const Method> SrqMethods() { return kSrqMethods; }
std::span<const WriteCommand> SrqCommands() { return kSrqCommands; }

}  // namespace softhca::uverbs
