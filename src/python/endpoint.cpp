#include "endpoint.hpp"

#include <pybind11/stl.h>

#include <cstring>

#include "warpverbs/arch/cpu.hpp"

namespace warpverbs::python {
namespace {

host::EndpointConfig ConfigOf(const EndpointObject& object, const py::dict& settings) {
  host::EndpointConfig config{.completions = object.completions ? &object.completions->ring : nullptr,
                              .pool = object.pool ? &object.pool->pool : nullptr,
                              .gpu = object.gpu ? &*object.gpu : nullptr,
                              .events = object.events ? &object.events->thread : nullptr,
                              .peers = object.peers ? &object.peers->table : nullptr};
  Take(settings, "depth", config.depth);
  Take(settings, "cq_depth", config.cq_depth);
  Take(settings, "contended", config.contended);
  Take(settings, "receive_depth", config.receive_depth);
  Take(settings, "receive_scatter", config.receive_scatter);
  Take(settings, "wait_on_cq", config.wait_on_cq);
  Take(settings, "over_pcie", config.over_pcie);
  Take(settings, "peer_rank", config.peer_rank);
  Take(settings, "port", config.port);
  Take(settings, "gid_index", config.gid_index);
  Take(settings, "pkey_index", config.pkey_index);
  Take(settings, "psn", config.psn);
  Take(settings, "remote_read", config.remote_read);
  Take(settings, "remote_write", config.remote_write);
  Take(settings, "remote_atomic", config.remote_atomic);
  Take(settings, "traffic_class", config.path.traffic_class);
  Take(settings, "service_level", config.path.service_level);
  Take(settings, "hop_limit", config.path.hop_limit);
  Take(settings, "udp_source_port", config.path.udp_source_port);
  Take(settings, "ack_timeout", config.retry.ack_timeout);
  Take(settings, "retry_count", config.retry.retry_count);
  Take(settings, "rnr_retry", config.retry.rnr_retry);
  Take(settings, "min_rnr_timer", config.retry.min_rnr_timer);
  using mlx5::Mtu;
  Choose(settings, "max_mtu",
         {{"256", Mtu::k256},
          {"512", Mtu::k512},
          {"1024", Mtu::k1024},
          {"2048", Mtu::k2048},
          {"4096", Mtu::k4096}},
         config.path.max_mtu);
  using host::CqMode;
  Choose(settings, "cq_mode", {{"ring", CqMode::kRing}, {"collapsed", CqMode::kCollapsed}}, config.cq_mode);
  using host::Placement;
  Choose(settings, "placement",
         {{"probe", Placement::kProbe}, {"host", Placement::kHost}, {"gpu", Placement::kGpu}},
         config.placement);
  using host::DoorbellMode;
  Choose(settings, "doorbell",
         {{"auto", DoorbellMode::kAuto},
          {"gpu", DoorbellMode::kGpu},
          {"host_proxy", DoorbellMode::kHostProxy},
          {"host_posts", DoorbellMode::kHostPosts}},
         config.doorbell);
  if (std::string gid; Take(settings, "peer_gid", gid), gid.size() == sizeof(host::Gid::raw)) {
    std::memcpy(config.peer_gid.emplace().raw.data(), gid.data(), gid.size());
  }
  return config;
}

/// Returns the object of a setting that is an object of another class, or null.
template <class Wrapper>
auto ObjectOf(const py::dict& settings, const char* name) {
  const Wrapper* wrapper = nullptr;
  if (settings.contains(name) && !settings[name].is_none()) {
    try {
      wrapper = settings[name].cast<const Wrapper*>();
    } catch (const py::cast_error&) {
      throw py::type_error("Cannot use " + std::string(py::repr(settings[name])) + " as " + name +
                           ": it has another type. See warpverbs.EndpointConfig.");
    }
  }
  return wrapper == nullptr ? nullptr : wrapper->Get();
}

py::object EventOf(const std::optional<host::Event>& event) {
  if (!event) return py::none();
  return MakeTuple("Event", event->name, event->device, event->port, event->qpn, event->Describe());
}

py::object LastError(const Endpoint& self) {
  const auto error = self.Call([](const host::Endpoint& endpoint) { return endpoint.LastError(); });
  if (!error) return py::none();
  return MakeTuple("QueueError", error->qpn, error->receiving, error->syndrome, error->vendor_syndrome,
                   host::OperationName(error->opcode), error->wqe_index, EventOf(error->event),
                   error->disconnected, error->stopped, error->Describe());
}

py::object CountersOf(const Endpoint& self) {
  const auto object = self.Get();
  if (object->endpoint->on_gpu()) return py::none();
  const device::QueueView view = object->endpoint->View();
  const device::QueueControl& control = *view.control;
  const bool contended = (view.flags & device::kContended) != 0;
  const uint64_t posted = arch::Cpu::Load(contended ? &control.ready : &control.tail);
  const uint64_t receives = object->receives ? arch::Cpu::Load(object->endpoint->ReceiveView().state) : 0;
  return MakeTuple("EndpointCounters", static_cast<uint32_t>(posted), static_cast<uint32_t>(receives >> 32),
                   static_cast<uint32_t>(receives));
}

void Reset(const Endpoint& self) {
  const auto object = self.Get();
  self.Call([&](host::Endpoint& endpoint) {
    endpoint.Reset();
    object->StoreViews();
  });
}

}  // namespace

EndpointObject::EndpointObject(std::shared_ptr<const host::Device> nic, const py::dict& settings)
    : device(std::move(nic)),
      pool(ObjectOf<QueuePool>(settings, "pool")),
      events(ObjectOf<EventThread>(settings, "events")),
      peers(ObjectOf<PeerTable>(settings, "peers")),
      completions(ObjectOf<SharedCompletions>(settings, "completions")) {
  std::optional<Gpu> chosen;
  Take(settings, "gpu", chosen);
  if (chosen) gpu = chosen->Get();
  const host::EndpointConfig config = ConfigOf(*this, settings);
  receives = config.receive_depth != 0;
  WithoutGil([&] {
    views.emplace(gpu, kViewBytes);
    endpoint.emplace(*device, config);
    StoreViews();
  });
}

void EndpointObject::StoreViews() const {
  static_assert(sizeof(device::QueueView) <= kReceivesOffset);
  static_assert(kReceivesOffset + sizeof(device::ReceiveQueueView) <= kViewBytes);
  views->Store(0, endpoint->View());
  if (receives) views->Store(kReceivesOffset, endpoint->ReceiveView());
}

Endpoint::Endpoint(const Device& device, const py::dict& settings)
    : Handle("the endpoint", std::make_unique<EndpointObject>(device.Get(), settings)) {}

void BindEndpoint(py::module_& module) {
  py::class_<Endpoint> endpoint(module, "Endpoint");
  endpoint.def(py::init<const Device&, const py::dict&>())
      .def_property_readonly(
          "qpn", [](const Endpoint& self) { return self.Get()->endpoint->qpn(); }, Doc("Endpoint.qpn"))
      .def_property_readonly(
          "port", [](const Endpoint& self) { return self.Get()->endpoint->port(); }, Doc("Endpoint.port"))
      .def_property_readonly(
          "on_gpu", [](const Endpoint& self) { return self.Get()->endpoint->on_gpu(); },
          Doc("Endpoint.on_gpu"))
      .def_property_readonly(
          "send_cqn", [](const Endpoint& self) { return self.Get()->endpoint->send_cqn(); },
          Doc("Endpoint.send_cqn"))
      .def_property_readonly(
          "connected",
          [](const Endpoint& self) {
            return self.Call([](const host::Endpoint& one) { return one.peer().has_value(); });
          },
          Doc("Endpoint.connected"))
      .def_property_readonly(
          "queue", [](const Endpoint& self) { return self.Get()->views->AddressOf(0); },
          Doc("Endpoint.queue"))
      .def_property_readonly(
          "receives",
          [](const Endpoint& self) {
            const auto object = self.Get();
            if (!object->receives) object->endpoint->ReceiveView();  // throws
            return object->views->AddressOf(EndpointObject::kReceivesOffset);
          },
          Doc("Endpoint.receives"))
      .def_property_readonly(
          "abort_word",
          [](const Endpoint& self) { return reinterpret_cast<uint64_t>(self.Get()->endpoint->AbortWord()); },
          Doc("Endpoint.abort_word"))
      .def_property_readonly(
          "needs_system_scope",
          [](const Endpoint& self) { return self.Get()->endpoint->ReleaseScope() == arch::Scope::kSystem; },
          Doc("Endpoint.needs_system_scope"))
      .def_property_readonly(
          "state",
          [](const Endpoint& self) {
            return self.Call(
                [](const host::Endpoint& one) { return std::string(host::ToString(one.State())); });
          },
          Doc("Endpoint.state"))
      .def(
          "info",
          [](const Endpoint& self) {
            return self.Call([](const host::Endpoint& one) { return one.Info().Serialize(); });
          },
          Doc("Endpoint.info"))
      .def(
          "connect",
          [](const Endpoint& self, const std::string& peer) {
            self.Call([&](host::Endpoint& one) { one.Connect(host::EndpointInfo::Parse(peer)); });
          },
          "peer"_a, Doc("Endpoint.connect"))
      .def(
          "check_peer",
          [](const Endpoint& self, const std::string& peer) {
            self.Call([&](host::Endpoint& one) { one.CheckPeer(host::EndpointInfo::Parse(peer)); });
          },
          "peer"_a, Doc("Endpoint.check_peer"))
      .def(
          "disconnect",
          [](const Endpoint& self) { self.Call([](host::Endpoint& one) { one.Disconnect(); }); },
          Doc("Endpoint.disconnect"))
      .def("reset", Reset, Doc("Endpoint.reset"))
      .def(
          "abort", [](const Endpoint& self) { self.Get()->endpoint->Abort(); }, Doc("Endpoint.abort"))
      .def(
          "describe",
          [](const Endpoint& self) {
            return self.Call([](const host::Endpoint& one) { return one.Describe(); });
          },
          Doc("Endpoint.describe"))
      .def("last_error", LastError)
      .def("last_event", [](const Endpoint& self) { return EventOf(self.Get()->endpoint->LastEvent()); })
      .def("counters", CountersOf)
      .def("__repr__", [](const Endpoint& self) {
        if (self.closed()) return std::string("<warpverbs.Endpoint, closed>");
        return "<warpverbs.Endpoint of QP " + std::to_string(self.Get()->endpoint->qpn()) + ">";
      });
  BindOperations(endpoint);
  BindClose(endpoint);
}

}  // namespace warpverbs::python
