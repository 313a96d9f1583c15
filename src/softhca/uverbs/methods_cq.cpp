#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

#include <bit>

#include "core/limits.hpp"
#include "uverbs/method.hpp"
#include "uverbs/user_memory.hpp"

namespace softhca::uverbs {
namespace {

constexpr uint32_t kCqErrorEvent = 0;  // IBV_EVENT_CQ_ERR

std::unique_ptr<CqObject> MakeObject(Call& call) {
  const auto element = call.request().Get<uint64_t>(UVERBS_ATTR_CREATE_CQ_USER_HANDLE);
  const auto completions = call.Pipe<ib_uverbs_comp_event_desc>(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
  const auto errors = call.Pipe<ib_uverbs_async_event_desc>(UVERBS_ATTR_CREATE_CQ_EVENT_FD);
  return std::make_unique<CqObject>(EventSource(completions, element), EventSource(errors, element));
}

void CheckDriver(const mlx5_ib_create_cq& driver) {
  if (driver.flags != MLX5_IB_CREATE_CQ_FLAGS_UAR_PAGE_INDEX || driver.cqe_comp_en != 0) {
    throw Errno(EOPNOTSUPP, "compressed, padded and wall-clock completions are not supported");
  }
}

/// Returns the size of the ring for a queue that is to hold `cqe` completions: one entry more, which the
/// resizing of the queue needs.
uint64_t RingEntries(uint32_t cqe) {
  const uint64_t entries = std::bit_ceil(uint64_t{cqe} + 1);
  if (entries < 2 || entries > 1u << limits::kLogCqDepth) {
    throw Errno(EINVAL, "a completion queue cannot have " + std::to_string(entries) + " entries");
  }
  return entries;
}

CqConfig ReadConfig(const IoctlRequest& request, const mlx5_ib_create_cq& driver) {
  const uint64_t entries = RingEntries(request.Get<uint32_t>(UVERBS_ATTR_CREATE_CQ_CQE));
  if (request.Get<uint32_t>(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR) >= limits::kCompletionVectors) {
    throw Errno(EINVAL, "the completion vector does not exist");
  }
  CqConfig config;
  config.ring = UserQueue(driver.buf_addr, entries * driver.cqe_size);
  config.dbr = static_cast<mlx5::CqDbr*>(UserRecord(driver.db_addr));
  config.log_depth = static_cast<uint32_t>(std::countr_zero(entries));
  config.cqe_bytes = driver.cqe_size;
  config.uar_page = driver.uar_page_index;
  config.ignore_overrun =
      (request.Get<uint32_t>(UVERBS_ATTR_CREATE_CQ_FLAGS, 0) & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN) != 0;
  return config;
}

void CreateCq(Call& call) {
  IoctlRequest& request = call.request();
  const auto driver = request.GetExtensible<mlx5_ib_create_cq>(UVERBS_ATTR_UHW_IN);
  CheckDriver(driver);
  CqConfig config = ReadConfig(request, driver);
  const uint32_t last_entry = (1u << config.log_depth) - 1;
  call.context().Owned(Kind::kUar, config.uar_page);
  auto object = MakeObject(call);
  config.on_completion = [cq = object.get()] { cq->completions.SendCompletion(); };
  config.on_error = [cq = object.get()] { cq->errors.SendAsync(kCqErrorEvent); };
  const uint32_t cqn = object->number = call.hca().CreateCq(std::move(config));
  request.SetHandle(UVERBS_ATTR_CREATE_CQ_HANDLE, call.context().Add(std::move(object)));
  request.Set(UVERBS_ATTR_UHW_OUT, mlx5_ib_create_cq_resp{cqn, 0});
  request.Set(UVERBS_ATTR_CREATE_CQ_RESP_CQE, last_entry);
}

/// @source  Linux v6.1, drivers/infiniband/hw/mlx5/cq.c, mlx5_ib_resize_cq()
void ResizeCq(Call& call) {
  IoctlRequest& request = call.request();
  const auto cmd = request.Get<ib_uverbs_resize_cq>(UVERBS_ATTR_CORE_IN);
  const auto driver = request.GetExtensible<mlx5_ib_resize_cq>(UVERBS_ATTR_UHW_IN);
  if (driver.reserved0 != 0 || driver.reserved1 != 0) throw Errno(EINVAL, "a reserved field is not 0");
  const uint64_t entries = RingEntries(cmd.cqe);
  uint8_t* const ring = UserQueue(driver.buf_addr, entries * driver.cqe_size);
  const auto& cq = call.context().Get<CqObject>(cmd.cq_handle, Kind::kCq);
  const auto log_depth = static_cast<uint32_t>(std::countr_zero(entries));
  if (log_depth != call.hca().FindCq(cq.number)->config().log_depth)
    call.hca().ResizeCq(cq.number, ring, log_depth, driver.cqe_size);
  ib_uverbs_resize_cq_resp resp{};
  resp.cqe = static_cast<uint32_t>(entries - 1);
  request.Set(UVERBS_ATTR_CORE_OUT, resp);
}

void DestroyCq(Call& call) {
  constexpr uint16_t kHandle = UVERBS_ATTR_DESTROY_CQ_HANDLE;
  const auto& cq = call.Get<CqObject>(kHandle, Kind::kCq);
  EventSource completions = cq.completions;
  EventSource errors = cq.errors;
  call.Destroy(kHandle, Kind::kCq);
  call.request().Set(UVERBS_ATTR_DESTROY_CQ_RESP,
                     ib_uverbs_destroy_cq_resp{completions.Close(), errors.Close()});
}

constexpr Method kCqMethods[] = {
    {UVERBS_OBJECT_CQ,
     UVERBS_METHOD_CQ_CREATE,
     "CREATE_CQ",
     CreateCq,
     {Required(UVERBS_ATTR_CREATE_CQ_HANDLE), Required(UVERBS_ATTR_CREATE_CQ_CQE),
      Required(UVERBS_ATTR_CREATE_CQ_USER_HANDLE), Optional(UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
      Required(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR), Optional(UVERBS_ATTR_CREATE_CQ_FLAGS),
      Required(UVERBS_ATTR_CREATE_CQ_RESP_CQE), Optional(UVERBS_ATTR_CREATE_CQ_EVENT_FD),
      Required(UVERBS_ATTR_UHW_IN), Optional(UVERBS_ATTR_UHW_OUT)}},
    {UVERBS_OBJECT_CQ,
     UVERBS_METHOD_CQ_DESTROY,
     "DESTROY_CQ",
     DestroyCq,
     {Required(UVERBS_ATTR_DESTROY_CQ_HANDLE), Required(UVERBS_ATTR_DESTROY_CQ_RESP)}},
};

constexpr WriteCommand kCqCommands[] = {
    {IB_USER_VERBS_CMD_RESIZE_CQ, "RESIZE_CQ", ResizeCq, sizeof(ib_uverbs_resize_cq),
     sizeof(ib_uverbs_resize_cq_resp)},
};

}  // namespace

std::span<const Method> CqMethods() { return kCqMethods; }
std::span<const WriteCommand> CqCommands() { return kCqCommands; }

}  // namespace softhca::uverbs
