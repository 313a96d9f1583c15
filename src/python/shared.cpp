#include "shared.hpp"

#include <pybind11/stl.h>

namespace warpverbs::python {
namespace {

host::EventConfig ConfigOf(const py::object& port_down_grace) {
  if (port_down_grace.is_none()) return {.port_down_grace = std::nullopt};
  const std::chrono::nanoseconds grace = Seconds(port_down_grace.cast<double>(), "port_down_grace");
  return {.port_down_grace = std::chrono::duration_cast<std::chrono::milliseconds>(grace)};
}

std::optional<host::Gpu> Chosen(const std::optional<Gpu>& gpu) {
  return gpu ? std::optional(gpu->Get()) : std::nullopt;
}

const char* StateOf(const PeerTable& self, uint32_t rank) {
  const auto object = self.Get();
  if (rank >= object->table.count()) {
    throw py::index_error("Cannot read the state of peer " + std::to_string(rank) + ": the table has " +
                          std::to_string(object->table.count()) + " peers. Pass a rank below that.");
  }
  switch (object->table.State(rank)) {
    case device::PeerState::kConnected:
      return "connected";
    case device::PeerState::kFailed:
      return "failed";
    case device::PeerState::kDisconnected:
      break;
  }
  return "disconnected";
}

}  // namespace

PeerTableObject::PeerTableObject(uint32_t count, const std::optional<host::Gpu>& gpu)
    : table(count, gpu ? &*gpu : nullptr), view(gpu, sizeof(device::PeersView)) {
  view.Store(0, table.View());
}

EventThread::EventThread(const py::object& port_down_grace)
    : Handle("the event thread", std::unique_ptr<EventThreadObject>(
                                     new EventThreadObject{host::EventThread(ConfigOf(port_down_grace))})) {}

PeerTable::PeerTable(uint32_t count, const std::optional<Gpu>& gpu)
    : Handle("the table of peers", std::make_unique<PeerTableObject>(count, Chosen(gpu))) {}

QueuePool::QueuePool(const Device& device, size_t chunk_bytes, uint32_t endpoints_per_register)
    : Handle("the pool of queues", [&] {
        auto nic = device.Get();
        const host::Device& pool_nic = *nic;
        return std::unique_ptr<QueuePoolObject>(new QueuePoolObject{
            std::move(nic), host::QueuePool(pool_nic, {.chunk_bytes = chunk_bytes,
                                                       .endpoints_per_register = endpoints_per_register})});
      }()) {}

SharedCompletions::SharedCompletions(const Device& device, uint32_t depth, uint32_t max_queues,
                                     const std::optional<Gpu>& gpu)
    : Handle("the shared completions",
             std::make_unique<CompletionsObject>(device.Get(), depth, max_queues, Chosen(gpu))) {}

void BindShared(py::module_& module) {
  py::class_<EventThread> events(module, "EventThread", Doc("EventThread"));
  events.def(py::init<const py::object&>(), "port_down_grace"_a = 1.0)
      .def_property_readonly(
          "wakeups", [](const EventThread& self) { return self.Get()->thread.wakeups(); },
          Doc("EventThread.wakeups"));
  BindClose(events);

  py::class_<PeerTable> peers(module, "PeerTable", Doc("PeerTable"));
  peers.def(py::init<uint32_t, std::optional<Gpu>>(), "count"_a, "gpu"_a = py::none())
      .def("__len__", [](const PeerTable& self) { return self.Get()->table.count(); })
      .def("state", StateOf, "rank"_a, Doc("PeerTable.state"))
      .def_property_readonly(
          "peers", [](const PeerTable& self) { return self.Get()->view.AddressOf(0); },
          Doc("PeerTable.peers"));
  BindClose(peers);

  const host::QueuePoolConfig defaults;
  py::class_<QueuePool> pool(module, "QueuePool", Doc("QueuePool"));
  pool.def(py::init<const Device&, size_t, uint32_t>(), "device"_a, "chunk_bytes"_a = defaults.chunk_bytes,
           "endpoints_per_register"_a = defaults.endpoints_per_register)
      .def("usage", [](const QueuePool& self) {
        const host::QueuePool::Usage usage = self.Get()->pool.usage();
        return MakeTuple("PoolUsage", usage.chunks, usage.bytes, usage.used_bytes, usage.registers);
      });
  BindClose(pool);

  const host::SharedCompletionsConfig shared;
  py::class_<SharedCompletions> completions(module, "SharedCompletions", Doc("SharedCompletions"));
  completions
      .def(py::init<const Device&, uint32_t, uint32_t, std::optional<Gpu>>(), "device"_a,
           "depth"_a = shared.depth, "max_queues"_a = shared.max_queues, "gpu"_a = py::none())
      .def_property_readonly("cqn", [](const SharedCompletions& self) { return self.Get()->ring.cqn(); })
      .def_property_readonly("depth", [](const SharedCompletions& self) { return self.Get()->ring.depth(); })
      .def(
          "recover",
          [](const SharedCompletions& self) {
            const auto object = self.Get();
            WithoutGil([&] { object->ring.Recover(); });
          },
          Doc("SharedCompletions.recover"));
  BindClose(completions);
}

}  // namespace warpverbs::python
