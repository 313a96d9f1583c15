// A file that becomes readable when a message has come, for threads that sleep until then.
#include "channel.hpp"

#include <pybind11/stl.h>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/receive_queue.hpp"

namespace warpverbs::python {
namespace {

/// @errors  Error: the channel does not watch the endpoint
host::CompletionAlarm& AlarmOf(EndpointObject& object) {
  if (object.alarm) return *object.alarm;
  throw host::Error("arm", "the receives of QP " + std::to_string(object.endpoint->qpn()),
                    "no channel watches the endpoint", "Call CompletionChannel.watch() first");
}

/// Calls a function without the GIL, while no other thread uses the endpoint's receive queue.
template <class Function>
void WithReceives(const Endpoint& endpoint, const Function& function) {
  const auto object = endpoint.Get();
  WithoutGil([&] {
    const CallLock lock(object->receive_mutex,
                        [&] { return "QP " + std::to_string(object->endpoint->qpn()); });
    function(*object);
  });
}

void Watch(const CompletionChannel& self, const Endpoint& endpoint, uint64_t cookie) {
  const auto channel = self.Get();
  const auto object = endpoint.Get();
  WithoutGil([&] {
    const EndpointLock calls(*object);
    if (object->channel) {
      throw host::Error("watch", "QP " + std::to_string(object->endpoint->qpn()),
                        "a channel watches it already", "Keep to that channel");
    }
    const std::lock_guard lock(channel->mutex);
    object->alarm.emplace(object->endpoint->AnnounceReceives(channel->channel, cookie));
    object->channel = channel;  // which has to live as long as the endpoint does
  });
}

void Arm(const Endpoint& endpoint) {
  WithReceives(endpoint, [](EndpointObject& object) {
    host::CompletionAlarm& alarm = AlarmOf(object);
    alarm.Arm(device::ReceiveQueue<arch::Cpu>(object.endpoint->ReceiveView()).consumer_index());
  });
}

void OnAnnounced(const Endpoint& endpoint) {
  WithReceives(endpoint, [](EndpointObject& object) { AlarmOf(object).OnAnnounced(); });
}

std::optional<uint64_t> TakeAnnouncement(const CompletionChannel& self) {
  const auto object = self.Get();
  return WithoutGil([&] {
    const std::lock_guard lock(object->mutex);
    return object->channel.Take();
  });
}

}  // namespace

CompletionChannel::CompletionChannel(const Device& device)
    : Handle("the completion channel", std::make_unique<ChannelObject>(device.Get())) {}

void BindChannel(py::module_& module) {
  py::class_<CompletionChannel> channel(module, "CompletionChannel");
  channel.def(py::init<const Device&>())
      .def("fileno", [](const CompletionChannel& self) { return self.Get()->channel.fd(); })
      .def("_watch", Watch)
      .def("_take", TakeAnnouncement);
  channel.def_static("_arm", Arm).def_static("_announced", OnAnnounced);
  BindClose(channel);
}

}  // namespace warpverbs::python
