#include <rdma/mlx5_user_ioctl_verbs.h>

#include <algorithm>

#include "uverbs/devx.hpp"
#include "uverbs/method.hpp"

/// DEVX event channels: asynchronous events of objects from firmware.
namespace softhca::uverbs {
namespace {

/// An event as the program reads it: its cookie and the event queue entry.
struct DevxEvent {
  uint64_t cookie;
  uint8_t reserved0;
  uint8_t type;
  uint8_t reserved1[54];
  mlx5::Be32 number;  ///< number of the queue pair or completion queue
  uint8_t reserved2[4];
};
static_assert(sizeof(DevxEvent) == 72);

/// Length of an event on a channel without data: one cookie.
constexpr size_t kCookieBytes = sizeof DevxEvent::cookie;

void CheckDevxEvents(Call& call) {
  // UCX and others make their queues by DEVX if channels exist, with commands that are not all implemented.
  if (!call.config().devx_events) throw Errno(EOPNOTSUPP, "event channels need --devx-events");
}

void CreateEventChannel(Call& call) {
  CheckDevxEvents(call);
  const auto flags = call.request().Get<uint32_t>(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS);
  if ((flags & ~uint32_t{MLX5_IB_UAPI_DEVX_CR_EV_CH_FLAGS_OMIT_DATA}) != 0) {
    throw Errno(EINVAL, "the event channel flags are unknown");
  }
  const auto pipe = call.context().AddPipe(EventSort::kDevx, flags != 0 ? kCookieBytes : sizeof(DevxEvent));
  call.request().SetHandle(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE,
                           static_cast<uint32_t>(pipe->program_end()));
}

void SubscribeEvents(Call& call) {
  CheckDevxEvents(call);
  const IoctlRequest& request = call.request();
  const auto pipe = call.context().FindPipe(
      static_cast<int>(request.Handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE)), EventSort::kDevx, 0);
  if (!request.Has(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE) ||
      request.Has(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM)) {
    throw Errno(EOPNOTSUPP, "only events of an object, on the channel itself, are supported");
  }
  const std::vector<uint8_t> bytes = request.GetBytes(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST);
  std::vector<uint16_t> types(bytes.size() / sizeof(uint16_t));
  if (types.empty()) throw Errno(EINVAL, "the list of events is empty");
  std::memcpy(types.data(), bytes.data(), types.size() * sizeof(uint16_t));
  Object& object = call.context().GetAny(request.Handle(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE));
  if (object.kind != Kind::kQp && object.kind != Kind::kCq) throw Errno(EINVAL, "the object has no events");
  object.subscriptions.Add(
      {pipe, request.Get<uint64_t>(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE, 0), std::move(types)});
}

constexpr Method kDevxEventMethods[] = {
    {MLX5_IB_OBJECT_DEVX_ASYNC_EVENT_FD,
     MLX5_IB_METHOD_DEVX_ASYNC_EVENT_FD_ALLOC,
     "DEVX event channel create",
     CreateEventChannel,
     {Required(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_HANDLE),
      Required(MLX5_IB_ATTR_DEVX_ASYNC_EVENT_FD_ALLOC_FLAGS)}},
    {MLX5_IB_OBJECT_DEVX,
     MLX5_IB_METHOD_DEVX_SUBSCRIBE_EVENT,
     "DEVX subscribe event",
     SubscribeEvents,
     {Required(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_HANDLE),
      Optional(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_OBJ_HANDLE),
      Required(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_TYPE_NUM_LIST),
      Optional(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_FD_NUM),
      Optional(MLX5_IB_ATTR_DEVX_SUBSCRIBE_EVENT_COOKIE)}},
};

}  // namespace

std::span<const Method> DevxEventMethods() { return kDevxEventMethods; }

void SendDevxEvent(const Object& object, uint8_t type) {
  for (const DevxSubscription& subscription : object.subscriptions) {
    const auto pipe = subscription.pipe.lock();
    const auto& types = subscription.types;
    if (pipe == nullptr || std::find(types.begin(), types.end(), type) == types.end()) continue;
    DevxEvent event{};
    event.cookie = subscription.cookie;
    event.type = type;
    event.number = mlx5::ToBe32(object.number);
    if (pipe->event_bytes() == kCookieBytes) pipe->Withdraw(event.cookie);
    pipe->Write(&event);
  }
}

}  // namespace softhca::uverbs
