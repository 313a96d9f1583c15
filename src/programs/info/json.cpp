#include <nlohmann/json.hpp>

#include "info/report.hpp"
#include "machine/pci.hpp"

namespace warpverbs::programs {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kInfoVersion = 1;

/// Returns null for unknown values.
Json OrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json NodeOrNull(int node) { return node < 0 ? Json() : Json(node); }

Json ToJson(const host::Capabilities& can) {
  return {{"max_send_wqebbs", can.max_send_wqebbs},
          {"max_wqe_bytes", can.max_wqe_bytes},
          {"max_receive_bytes", can.max_receive_bytes},
          {"max_cqes", can.max_cqes},
          {"max_message_bytes", uint64_t{1} << can.log_max_message},
          {"max_reads_out", can.max_reads_out},
          {"max_reads_in", can.max_reads_in},
          {"atomics_4_bytes", can.atomics() && (can.atomic_sizes & 4) != 0},
          {"atomics_8_bytes", can.atomics() && (can.atomic_sizes & 8) != 0},
          {"wait", can.cross_channel},
          {"cqe_user_index", can.cqe_user_index}};
}

Json ToJson(const PortInfo& port, const DeviceSelection& selection) {
  Json gids = Json::array();
  for (const GidChoice& choice : ExplainGids(port, selection)) {
    gids.push_back({{"index", choice.entry.index},
                    {"type", ToString(choice.entry.type)},
                    {"address", ToString(choice.entry.gid)},
                    {"score", choice.score},
                    {"chosen", choice.chosen},
                    {"why", choice.why}});
  }
  return {{"number", port.port.number},
          {"state", port.port.state},
          {"active", port.port.active},
          {"link_layer", ToString(port.port.link_layer)},
          {"mtu", host::Bytes(port.port.active_mtu)},
          {"max_mtu", host::Bytes(port.max_mtu)},
          {"speed", OrNull(port.rate)},
          {"lid", port.port.lid},
          {"interface", OrNull(port.interface)},
          {"gids", gids}};
}

Json ToJson(const Files& files, const NicInfo& nic, const DeviceSelection& selection) {
  if (!nic.usable()) return {{"name", nic.name}, {"problem", nic.problem}, {"remedy", nic.remedy}};
  Json ports = Json::array();
  for (const PortInfo& port : nic.ports) ports.push_back(ToJson(port, selection));
  const auto link = ReadPciLink(files, nic.function, "current");
  return {{"name", nic.name},
          {"firmware", nic.capabilities.firmware},
          {"board", OrNull(nic.board)},
          {"vendor_part", nic.vendor_part},
          {"pci_address", OrNull(PciAddressOf(nic.function))},
          {"numa_node", NodeOrNull(nic.numa_node)},
          {"pcie_link", link ? Json(link->text) : Json()},
          {"capabilities", ToJson(nic.capabilities)},
          {"ports", ports}};
}

Json ToJson(const GpuInfo& gpu) {
  if (!gpu.usable()) return {{"name", gpu.name}, {"problem", gpu.problem}, {"remedy", gpu.remedy}};
  return {{"name", gpu.name},
          {"model", gpu.model},
          {"pci_address", OrNull(gpu.address)},
          {"numa_node", NodeOrNull(gpu.numa_node)},
          {"dma_buf", gpu.attributes.dma_buf},
          {"gpu_direct", gpu.attributes.gpu_direct},
          {"gpu_direct_vmm", gpu.attributes.gpu_direct_vmm},
          {"host_flush", gpu.attributes.host_flush},
          {"writes_ordering", ToString(gpu.attributes.writes_ordering)}};
}

Json ToJson(const PortChoice& choice, const DeviceSelection& selection) {
  if (choice.where.nic.empty()) return {};
  return {{"device", choice.where.nic},
          {"port", choice.where.port},
          {"gid_index", choice.gid_index < 0 ? Json() : Json(choice.gid_index)},
          {"traffic_class", selection.traffic_class()},
          {"service_level", selection.service_level()},
          {"text", selection.Describe(choice.where, choice.gid_index)},
          {"problem", OrNull(choice.problem)}};
}

Json Distances(const Files& files, const Survey& survey) {
  Json distances = Json::array();
  for (const GpuInfo& gpu : survey.gpus)
    for (const NicInfo& nic : survey.nics)
      distances.push_back({{"gpu", gpu.name},
                           {"device", nic.name},
                           {"distance", ToString(Distance(files, gpu.function, nic.function))}});
  return distances;
}

}  // namespace

std::string InfoJson(const Files& files, const Survey& survey, const DeviceSelection& selection) {
  Json document = {{"version", kInfoVersion},
                   {"devices", Json::array()},
                   {"choice", ToJson(ChoosePort(survey, selection), selection)},
                   {"gpus", Json::array()}};
  for (const NicInfo& nic : survey.nics) document["devices"].push_back(ToJson(files, nic, selection));
  for (const GpuInfo& gpu : survey.gpus) document["gpus"].push_back(ToJson(gpu));
  document["topology"] = Distances(files, survey);
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace warpverbs::programs
