#include "devices.hpp"

#include <pybind11/stl.h>

#include <utility>
#include <vector>

#include "warpverbs/host/gid.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::python {
namespace {

std::unique_ptr<const host::Device> Open(const std::optional<std::string>& name) {
  return WithoutGil([&] {
    return name ? std::make_unique<const host::Device>(*name) : std::make_unique<const host::Device>();
  });
}

py::object PortOf(const host::Port& port) {
  return MakeTuple("Port", port.number, port.active, port.state, host::ToString(port.link_layer),
                   host::Bytes(port.active_mtu), port.lid);
}

py::list Ports(const Device& self) {
  const auto device = self.Get();
  py::list ports;
  for (const host::Port& port : WithoutGil([&] { return device->Ports(); })) ports.append(PortOf(port));
  return ports;
}

py::list Gids(const Device& self, uint8_t port) {
  const auto device = self.Get();
  py::list gids;
  for (const host::GidEntry& entry : WithoutGil([&] { return device->Gids(device->ActivePort(port)); }))
    gids.append(MakeTuple("Gid", entry.index, host::ToString(entry.gid), host::ToString(entry.type)));
  return gids;
}

py::object CapabilitiesOf(const Device& self) {
  const host::Capabilities& has = self.Get()->capabilities();
  return MakeTuple("Capabilities", has.firmware, has.max_send_wqebbs, has.max_cqes,
                   uint64_t{1} << has.log_max_message, has.max_reads_out, has.max_reads_in, has.atomics());
}

py::object NicOf(const host::Nic& nic) {
  py::list ports;
  for (const host::NicPort& port : nic.ports)
    ports.append(MakeTuple("NicPort", port.number, port.active, port.state, host::ToString(port.link_layer),
                           port.rate_gbps));
  const py::object address = nic.pci ? py::cast(host::ToString(nic.pci->address)) : py::none();
  return MakeTuple("Nic", nic.name, address, nic.connectx, ports);
}

py::object Topology(const std::string& sysfs) {
  const host::Topology found = WithoutGil([&] { return host::ReadTopology(sysfs); });
  py::list gpus, nics;
  for (const host::PciFunction& gpu : found.gpus) gpus.append(host::ToString(gpu.address));
  for (const host::Nic& nic : found.nics) nics.append(NicOf(nic));
  return MakeTuple("Topology", gpus, nics, host::Describe(found));
}

py::list AssignNics(uint32_t nics_per_gpu, const std::string& sysfs) {
  const auto assignment =
      WithoutGil([&] { return host::AssignNics(host::ReadTopology(sysfs), {.nics_per_gpu = nics_per_gpu}); });
  py::list choices;
  for (const host::GpuNics& gpu : assignment) {
    for (const host::NicChoice& nic : gpu.nics)
      choices.append(MakeTuple("NicChoice", host::ToString(gpu.gpu), nic.name, nic.port,
                               host::ToString(nic.distance), nic.reason));
  }
  return choices;
}

}  // namespace

Device::Device(const std::optional<std::string>& name)
    : Handle("the device " + name.value_or("with an active port"), Open(name)) {}

void BindDevices(py::module_& module) {
  module.def(
      "device_names", [] { return WithoutGil(host::DeviceNames); }, Doc("device_names"));
  module.def(
      "first_active_device", [] { return WithoutGil(host::FirstActiveDevice); }, Doc("first_active_device"));
  module.def("topology", Topology, "sysfs"_a = "/sys", Doc("topology"));
  module.def("assign_nics", AssignNics, "nics_per_gpu"_a = 1, "sysfs"_a = "/sys", Doc("assign_nics"));

  py::class_<Device> device(module, "Device", Doc("Device"));
  device.def(py::init<std::optional<std::string>>(), "name"_a = py::none())
      .def_property_readonly("name", [](const Device& self) { return self.Get()->name(); })
      .def_property_readonly("capabilities", CapabilitiesOf)
      .def("ports", Ports, Doc("Device.ports"))
      .def("gids", Gids, "port"_a = 0, Doc("Device.gids"))
      .def("__repr__", [](const Device& self) {
        return self.closed() ? "<warpverbs.Device, closed>" : "<warpverbs.Device " + self.Get()->name() + ">";
      });
  BindClose(device);

  py::class_<Gpu>(module, "Gpu", Doc("Gpu"))
      .def(py::init<int>(), "ordinal"_a = 0, py::call_guard<GilRelease>())
      .def_static("count", &Gpu::Count, py::call_guard<GilRelease>(), Doc("Gpu.count"))
      .def_property_readonly("ordinal", [](const Gpu& self) { return self.Get().ordinal(); })
      .def_property_readonly(
          "name", [](const Gpu& self) { return self.Get().name(); }, Doc("Gpu.name"))
      .def_property_readonly("model", [](const Gpu& self) { return self.Get().model(); })
      .def_property_readonly("pci_address", [](const Gpu& self) { return self.Get().pci_address(); })
      .def("__repr__", [](const Gpu& self) { return "<warpverbs.Gpu " + self.Get().name() + ">"; });
}

}  // namespace warpverbs::python
