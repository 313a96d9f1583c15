#include "machine/survey.hpp"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cctype>
#include <exception>

#include "machine/pci.hpp"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::programs {
namespace {

PortInfo SurveyPort(const Files& files, const host::Device& device, const host::Port& port) {
  const std::string folder =
      "/sys/class/infiniband/" + device.name() + "/ports/" + std::to_string(port.number);
  PortInfo seen{.port = port,
                .max_mtu = port.active_mtu,
                .rate = files.ReadOrEmpty(folder + "/rate"),
                .interface = files.ReadOrEmpty(folder + "/gid_attrs/ndevs/0"),
                .gids = device.Gids(port)};
  ibv_port_attr attributes{};
  if (ibv_query_port(device.context(), port.number, &attributes) == 0)
    seen.max_mtu = static_cast<mlx5::Mtu>(attributes.max_mtu);
  return seen;
}

NicInfo SurveyNic(const Files& files, const std::string& name) {
  const std::string folder = "/sys/class/infiniband/" + name;
  NicInfo nic{.name = name,
              .function = files.Resolve(folder + "/device"),
              .board = files.ReadOrEmpty(folder + "/board_id")};
  nic.numa_node = NumaNode(files, nic.function);
  try {
    const host::Device device(name);
    nic.capabilities = device.capabilities();
    ibv_device_attr attributes{};
    if (ibv_query_device(device.context(), &attributes) == 0) nic.vendor_part = attributes.vendor_part_id;
    for (const host::Port& port : device.Ports()) nic.ports.push_back(SurveyPort(files, device, port));
  } catch (const std::exception& error) {
    nic.problem = SplitRemedy(error, nic.remedy);
  }
  return nic;
}

GpuInfo SurveyGpu(const Files& files, int ordinal) {
  GpuInfo seen{.name = "cuda:" + std::to_string(ordinal)};
  try {
    const host::Gpu gpu(ordinal);
    seen.model = gpu.model();
    seen.attributes = gpu.attributes();
    seen.address = gpu.pci_address();  // the driver prints upper case
    for (char& c : seen.address) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    seen.function = PciFolder(files, seen.address);
    seen.numa_node = NumaNode(files, seen.function);
  } catch (const std::exception& error) {
    seen.problem = SplitRemedy(error, seen.remedy);
  }
  return seen;
}

}  // namespace

Survey SurveyHardware(const Files& files, const std::string& device) {
  Survey survey;
  try {
    for (const std::string& name : host::DeviceNames())
      if (device.empty() || name == device) survey.nics.push_back(SurveyNic(files, name));
    if (!device.empty() && survey.nics.empty()) static_cast<void>(host::Device(device));  // throws the reason
  } catch (const std::exception& error) {
    survey.problem = SplitRemedy(error, survey.remedy);
  }
  const int gpus = host::Gpu::Count();
  for (int ordinal = 0; ordinal < gpus; ++ordinal) survey.gpus.push_back(SurveyGpu(files, ordinal));
  return survey;
}

void Restrict(Survey& survey, const DeviceSelection& selection) {
  if (selection.filter().empty() || survey.nics.empty()) return;
  std::string names;
  std::vector<NicInfo> allowed;
  for (NicInfo& nic : survey.nics) {
    names += (names.empty() ? "" : ", ") + nic.name;
    std::erase_if(nic.ports,
                  [&](const PortInfo& port) { return !selection.Allows(nic.name, port.port.number); });
    if (!nic.ports.empty() || (!nic.usable() && selection.Allows(nic.name, 1)))
      allowed.push_back(std::move(nic));
  }
  survey.nics = std::move(allowed);
  if (!survey.nics.empty() || !survey.problem.empty()) return;
  survey.problem = selection.filter() + " allows none of " + names;
  survey.remedy = "Set it to one of these devices, or unset it";
}

PortChoice ChoosePort(const Survey& survey, const DeviceSelection& selection) {
  for (const NicInfo& nic : survey.nics) {
    for (const PortInfo& port : nic.ports) {
      if (!port.port.active || !selection.Allows(nic.name, port.port.number)) continue;
      PortChoice choice{.where = {nic.name, port.port.number}, .gid_index = selection.gid_index()};
      if (const host::GidEntry* const best = host::BestGid(port.gids);
          choice.gid_index < 0 && best != nullptr)
        choice.gid_index = static_cast<int>(best->index);
      const bool there = std::any_of(port.gids.begin(), port.gids.end(), [&](const host::GidEntry& entry) {
        return static_cast<int>(entry.index) == choice.gid_index;
      });
      if (!there) choice.problem = PortName(nic, port) + " has no GID";
      if (!there && selection.gid_index() >= 0) choice.problem += " " + std::to_string(selection.gid_index());
      return choice;
    }
  }
  return {.problem = "no port is active"};
}

std::string PortName(const NicInfo& nic, const PortInfo& port) {
  return nic.name + " port " + std::to_string(port.port.number);
}

std::string SplitRemedy(const std::exception& error, std::string& remedy) {
  std::string text = error.what();
  remedy.clear();
  if (const auto* const ours = dynamic_cast<const host::Error*>(&error)) {
    const std::string fault = "Cannot " + ours->step() + " " + ours->object() + ": " + ours->reason();
    remedy = text.substr(std::min(text.size(), fault.size() + 2));
    text = fault;
  }
  for (std::string* part : {&text, &remedy})
    while (part->ends_with('.')) part->pop_back();
  return text;
}

}  // namespace warpverbs::programs
