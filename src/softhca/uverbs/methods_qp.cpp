#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <algorithm>
#include <bit>

#include "core/limits.hpp"
#include "uverbs/method.hpp"
#include "uverbs/user_memory.hpp"
#include "wire/frame.hpp"

namespace softhca::uverbs {
namespace {

ibv_event_type EventType(QpEvent event) {
  switch (event) {
    case QpEvent::kInvalidRequest:
      return IBV_EVENT_QP_REQ_ERR;
    case QpEvent::kAccessError:
      return IBV_EVENT_QP_ACCESS_ERR;
    case QpEvent::kLastWqeReached:
      return IBV_EVENT_QP_LAST_WQE_REACHED;
    case QpEvent::kCatastrophic:
    case QpEvent::kDctDrained:       // for DEVX only
    case QpEvent::kDctKeyViolation:  // for DEVX only
      break;
  }
  return IBV_EVENT_QP_FATAL;
}

mlx5::ServiceType ReadService(uint8_t type, const mlx5_ib_create_qp& driver) {
  constexpr uint32_t kDc = MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT;
  const uint32_t dc = driver.flags & kDc;
  if ((dc != 0) != (type == IBV_QPT_DRIVER) || dc == kDc)
    throw Errno(EINVAL, "the DC flags do not fit the type");
  switch (type) {
    case IBV_QPT_DRIVER:
      return dc == MLX5_QP_FLAG_TYPE_DCI ? mlx5::ServiceType::kDci : mlx5::ServiceType::kDct;
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
      return mlx5::ServiceType::kRc;
    case IBV_QPT_UC:
      return mlx5::ServiceType::kUc;
    case IBV_QPT_UD:
      return mlx5::ServiceType::kUd;
    default:
      throw Errno(EOPNOTSUPP, "queue pairs of type " + std::to_string(type) + " are not supported");
  }
}

XrcRole ReadXrcRole(uint8_t type) {
  if (type == IBV_QPT_XRC_SEND) return XrcRole::kInitiator;
  return type == IBV_QPT_XRC_RECV ? XrcRole::kTarget : XrcRole::kNone;
}

void CheckDriver(const mlx5_ib_create_qp& driver) {
  // Scattering small data into CQEs is optional for the device, so the flags are accepted.
  constexpr uint32_t kKnown = MLX5_QP_FLAG_SCATTER_CQE | MLX5_QP_FLAG_ALLOW_SCATTER_CQE |
                              MLX5_QP_FLAG_UAR_PAGE_INDEX | MLX5_QP_FLAG_TYPE_DCI | MLX5_QP_FLAG_TYPE_DCT;
  const bool sends = (driver.flags & MLX5_QP_FLAG_TYPE_DCT) == 0;
  if ((driver.flags & ~kKnown) != 0 || (sends && (driver.flags & MLX5_QP_FLAG_UAR_PAGE_INDEX) == 0)) {
    throw Errno(EOPNOTSUPP, "queue pair flags " + std::to_string(driver.flags) + " are not supported");
  }
  constexpr uint32_t kMaxDepth = 1u << limits::kLogQueueDepth;
  if (driver.sq_wqe_count > kMaxDepth || driver.rq_wqe_count > kMaxDepth || driver.rq_wqe_shift > 9) {
    throw Errno(EINVAL, "the queues are too large");
  }
}

/// Places the queues as libmlx5 lays them out: receives before sends, a doorbell record for each.
void PlaceQueues(const mlx5_ib_create_qp& driver, QpConfig& config) {
  const uint64_t receive_bytes = uint64_t{driver.rq_wqe_count} << driver.rq_wqe_shift;
  const uint64_t bytes = receive_bytes + uint64_t{driver.sq_wqe_count} * mlx5::kWqebbBytes;
  auto* const record = static_cast<mlx5::QpDbr*>(UserRecord(driver.db_addr));
  uint8_t* const queues = bytes == 0 ? nullptr : UserQueue(driver.buf_addr, bytes);
  config.send_ring = queues + receive_bytes;
  config.send_depth = driver.sq_wqe_count;
  config.send_dbr = &record->send;
  config.receive.ring = queues;
  config.receive.dbr = &record->receive;
  config.receive.depth = driver.rq_wqe_count;
  config.receive.stride = 1u << driver.rq_wqe_shift;
}

void CreateQp(Call& call) {
  IoctlRequest& request = call.request();
  const auto type = request.Get<uint8_t>(UVERBS_ATTR_CREATE_QP_TYPE);
  const auto flags = request.Get<uint32_t>(UVERBS_ATTR_CREATE_QP_FLAGS, 0);
  constexpr uint32_t kKnown = IB_UVERBS_QP_CREATE_SQ_SIG_ALL | IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK;
  if ((flags & ~kKnown) != 0) throw Errno(EOPNOTSUPP, "a creation flag is unknown");
  const auto cap = request.Get<ib_uverbs_qp_cap>(UVERBS_ATTR_CREATE_QP_CAP);
  const auto driver = request.GetExtensible<mlx5_ib_create_qp>(UVERBS_ATTR_UHW_IN);
  QpConfig config;
  config.service = ReadService(type, driver);
  config.xrc = ReadXrcRole(type);
  const bool target = config.service == mlx5::ServiceType::kDct;
  CheckDriver(driver);
  if (target) {
    config.dc_access_key = driver.access_key;
  } else {
    PlaceQueues(driver, config);
    config.uar_page = driver.bfreg_index;
  }
  config.user_index = driver.uidx;
  config.hears_itself = (flags & IB_UVERBS_QP_CREATE_BLOCK_MULTICAST_LOOPBACK) == 0;

  Context& context = call.context();
  const auto number = [&](uint16_t id, Kind kind) { return call.Get(id, kind).number; };
  if (!target) context.Owned(Kind::kUar, config.uar_page);
  if (config.xrc == XrcRole::kTarget) {
    config.xrcd = number(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, Kind::kXrcd);
  } else {
    config.pdn = number(UVERBS_ATTR_CREATE_QP_PD_HANDLE, Kind::kPd);
    config.cqn_send = number(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, Kind::kCq);
  }
  if (config.xrc == XrcRole::kNone)
    config.cqn_receive = number(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, Kind::kCq);
  if (request.Has(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE))
    config.srqn = number(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, Kind::kSrq);

  auto object = std::make_unique<QpObject>(
      EventSource(call.Pipe<ib_uverbs_async_event_desc>(UVERBS_ATTR_CREATE_QP_EVENT_FD),
                  request.Get<uint64_t>(UVERBS_ATTR_CREATE_QP_USER_HANDLE)),
      cap, (flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL) != 0);
  config.on_event = [qp = object.get()](QpEvent event) { qp->events.SendAsync(EventType(event)); };
  uint32_t qpn = object->number = call.hca().CreateQp(std::move(config));
  if (target) qpn = 0;  // the program gets the number with the transition to RTR
  request.SetHandle(UVERBS_ATTR_CREATE_QP_HANDLE, context.Add(std::move(object)));
  request.Set(UVERBS_ATTR_CREATE_QP_RESP_CAP, cap);
  request.Set(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, qpn);
  request.Set(UVERBS_ATTR_UHW_OUT, mlx5_ib_create_qp_resp{});
}

/// Opens an XRC target of a domain that this context has open, too. Each context gets its events.
///
/// @source  Linux v6.12, drivers/infiniband/core/uverbs_cmd.c, ib_uverbs_open_qp()
void OpenQp(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_open_qp>(UVERBS_ATTR_CORE_IN);
  if (cmd.qp_type != IBV_QPT_XRC_RECV) throw Errno(EINVAL, "only XRC targets can be opened");
  Context& context = call.context();
  const uint32_t xrcd = context.Get(cmd.pd_handle, Kind::kXrcd).number;
  auto object = std::make_unique<QpObject>(EventSource(context.AsyncPipe(), cmd.user_handle),
                                           ib_uverbs_qp_cap{}, false);
  object->number = cmd.qpn;
  call.hca().OpenQp(cmd.qpn, xrcd, object.get(),
                    [qp = object.get()](QpEvent event) { qp->events.SendAsync(EventType(event)); });
  ib_uverbs_create_qp_resp resp{};
  resp.qpn = cmd.qpn;
  resp.qp_handle = context.Add(std::move(object));
  call.request().Set(UVERBS_ATTR_CORE_OUT, resp);
}

void DestroyQp(Call& call) {
  constexpr uint16_t kHandle = UVERBS_ATTR_DESTROY_QP_HANDLE;
  const auto& object = call.Get<QpObject>(kHandle, Kind::kQp);
  if (!call.hca().Qp(object.number).groups.empty())
    throw Errno(EBUSY, "the queue pair is attached to a multicast group; detach it first");
  EventSource events = object.events;
  call.Destroy(kHandle, Kind::kQp);
  call.request().Set(UVERBS_ATTR_DESTROY_QP_RESP, ib_uverbs_destroy_qp_resp{events.Close()});
}

/// Returns the multicast group that a command names. Groups are known by GID, on InfiniBand too: its subnet
/// forwards a datagram by GID, whichever multicast LID a sender uses.
template <class Command>
Gid GroupOf(const Command& cmd) {
  Gid group;
  std::copy_n(cmd.gid, group.size(), group.begin());
  return group;
}

/// @source  Linux v6.1, drivers/infiniband/core/verbs.c, ib_attach_mcast()
void AttachMulticast(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_attach_mcast>(UVERBS_ATTR_CORE_IN);
  const uint32_t qpn = call.context().Get(cmd.qp_handle, Kind::kQp).number;
  if (!IsMulticast(GroupOf(cmd))) throw Errno(EINVAL, "the GID is no multicast group");
  if (call.config().link == mlx5::PortType::kInfiniBand && !IsMulticastLid(cmd.mlid))
    throw Errno(EINVAL, "LID " + std::to_string(cmd.mlid) + " is no multicast LID");
  if (call.hca().Qp(qpn).config.service != mlx5::ServiceType::kUd)
    throw Errno(EINVAL, "only queue pairs for datagrams can be attached to a multicast group");
  call.hca().AttachMulticast(qpn, GroupOf(cmd));
}

void DetachMulticast(Call& call) {
  const auto cmd = call.request().Get<ib_uverbs_detach_mcast>(UVERBS_ATTR_CORE_IN);
  call.hca().DetachMulticast(call.context().Get(cmd.qp_handle, Kind::kQp).number, GroupOf(cmd));
}

constexpr Method kQpMethods[] = {
    {UVERBS_OBJECT_QP,
     UVERBS_METHOD_QP_CREATE,
     "CREATE_QP",
     CreateQp,
     {Required(UVERBS_ATTR_CREATE_QP_HANDLE), Optional(UVERBS_ATTR_CREATE_QP_XRCD_HANDLE),
      Optional(UVERBS_ATTR_CREATE_QP_PD_HANDLE), Optional(UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
      Optional(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE), Optional(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
      Required(UVERBS_ATTR_CREATE_QP_USER_HANDLE), Required(UVERBS_ATTR_CREATE_QP_CAP),
      Required(UVERBS_ATTR_CREATE_QP_TYPE), Optional(UVERBS_ATTR_CREATE_QP_FLAGS),
      Optional(UVERBS_ATTR_CREATE_QP_EVENT_FD), Required(UVERBS_ATTR_CREATE_QP_RESP_CAP),
      Required(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM), Required(UVERBS_ATTR_UHW_IN),
      Optional(UVERBS_ATTR_UHW_OUT)}},
    {UVERBS_OBJECT_QP,
     UVERBS_METHOD_QP_DESTROY,
     "DESTROY_QP",
     DestroyQp,
     {Required(UVERBS_ATTR_DESTROY_QP_HANDLE), Required(UVERBS_ATTR_DESTROY_QP_RESP)}},
};

constexpr WriteCommand kQpCommands[] = {
    {IB_USER_VERBS_CMD_MODIFY_QP, "MODIFY_QP", ModifyQpByVerbs, sizeof(ib_uverbs_modify_qp), 0},
    {IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_EX_CMD_MODIFY_QP, "EX_MODIFY_QP", ModifyQpByVerbs,
     sizeof(ib_uverbs_modify_qp), 0},
    {IB_USER_VERBS_CMD_OPEN_QP, "OPEN_QP", OpenQp, sizeof(ib_uverbs_open_qp),
     sizeof(ib_uverbs_create_qp_resp)},
    {IB_USER_VERBS_CMD_QUERY_QP, "QUERY_QP", QueryQpByVerbs, sizeof(ib_uverbs_query_qp),
     sizeof(ib_uverbs_query_qp_resp)},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, "ATTACH_MCAST", AttachMulticast, sizeof(ib_uverbs_attach_mcast), 0},
    {IB_USER_VERBS_CMD_DETACH_MCAST, "DETACH_MCAST", DetachMulticast, sizeof(ib_uverbs_detach_mcast), 0},
};

}  // namespace

std::span<const Method> QpMethods() { return kQpMethods; }
std::span<const WriteCommand> QpCommands() { return kQpCommands; }

}  // namespace softhca::uverbs
