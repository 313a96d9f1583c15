#include <set>

#include "info/report.hpp"
#include "machine/pci.hpp"
#include "text/table.hpp"

namespace warpverbs::programs {
namespace {

std::string YesNo(bool yes) { return yes ? "yes" : "no"; }

std::string OrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Numa(int node) { return node < 0 ? "-" : std::to_string(node); }

std::string Section(const std::string& title, const Table& table) {
  return table.empty() ? "" : title + "\n" + table.ToString() + "\n";
}

std::string Atomics(const host::Capabilities& capabilities) {
  if (!capabilities.atomics()) return "none";
  std::string sizes;
  for (const uint32_t size : {4u, 8u})
    if ((capabilities.atomic_sizes & size) != 0)
      sizes += (sizes.empty() ? "" : " and ") + std::to_string(size);
  return sizes + " bytes";
}

std::string Devices(const Files& files, const Survey& survey) {
  Table table({"NAME", "FIRMWARE", "BOARD", "PART", "PCI ADDRESS", "NUMA", "PCIE LINK"});
  std::string broken;
  for (const NicInfo& nic : survey.nics) {
    if (!nic.usable()) {
      broken += "  " + nic.problem + ".\n    -> " + nic.remedy + ".\n";
      continue;
    }
    const auto link = ReadPciLink(files, nic.function, "current");
    table.Add({nic.name, nic.capabilities.firmware, OrDash(nic.board), std::to_string(nic.vendor_part),
               OrDash(PciAddressOf(nic.function)), Numa(nic.numa_node), link ? link->text : "-"});
  }
  return Section("Devices", table) + (broken.empty() ? "" : "Devices that do not open\n" + broken + "\n");
}

std::string Capabilities(const Survey& survey) {
  Table table({"NAME", "SEND QUEUE", "WQE", "CQES", "MESSAGE", "READS OUT", "READS IN", "ATOMICS", "WAIT",
               "USER INDEX"});
  for (const NicInfo& nic : survey.nics) {
    if (!nic.usable()) continue;
    const host::Capabilities& can = nic.capabilities;
    table.Add({nic.name, std::to_string(can.max_send_wqebbs) + " WQEBBs",
               std::to_string(can.max_wqe_bytes) + " B", std::to_string(can.max_cqes),
               "2^" + std::to_string(can.log_max_message) + " B", std::to_string(can.max_reads_out),
               std::to_string(can.max_reads_in), Atomics(can), YesNo(can.cross_channel),
               YesNo(can.cqe_user_index)});
  }
  return Section("Capabilities (maximum values)", table);
}

std::string Ports(const Survey& survey) {
  Table table({"PORT", "STATE", "LINK LAYER", "MTU", "LARGEST MTU", "SPEED", "LID", "INTERFACE"});
  for (const NicInfo& nic : survey.nics) {
    for (const PortInfo& port : nic.ports) {
      table.Add({nic.name + "/" + std::to_string(port.port.number), port.port.state,
                 ToString(port.port.link_layer), std::to_string(host::Bytes(port.port.active_mtu)),
                 std::to_string(host::Bytes(port.max_mtu)), OrDash(port.rate),
                 port.port.lid == 0 ? "-" : std::to_string(port.port.lid), OrDash(port.interface)});
    }
  }
  return Section("Ports", table);
}

std::string Gids(const Survey& survey, const DeviceSelection& selection) {
  Table table({"PORT", "GID", "TYPE", "ADDRESS", "SCORE", "CHOSEN", "WHY"});
  for (const NicInfo& nic : survey.nics) {
    for (const PortInfo& port : nic.ports) {
      for (const GidChoice& choice : ExplainGids(port, selection)) {
        table.Add({nic.name + "/" + std::to_string(port.port.number), std::to_string(choice.entry.index),
                   ToString(choice.entry.type), ToString(choice.entry.gid), std::to_string(choice.score),
                   YesNo(choice.chosen), choice.why});
      }
    }
  }
  return Section("GIDs", table);
}

std::string Selected(const Survey& survey, const DeviceSelection& selection) {
  const PortChoice choice = ChoosePort(survey, selection);
  const std::string problem = choice.problem.empty() ? "" : "  but " + choice.problem + "\n";
  if (choice.where.nic.empty()) return "";
  return "Choice\n  " + selection.Describe(choice.where, choice.gid_index) + "\n" + problem + "\n";
}

std::string Gpus(const Survey& survey) {
  Table table(
      {"NAME", "MODEL", "PCI ADDRESS", "NUMA", "DMA-BUF", "NIC REACHES MEMORY", "NIC'S WRITES IN ORDER"});
  std::string broken;
  for (const GpuInfo& gpu : survey.gpus) {
    if (!gpu.usable()) {
      broken += "  " + gpu.problem + ".\n    -> " + gpu.remedy + ".\n";
      continue;
    }
    table.Add({gpu.name, gpu.model, OrDash(gpu.address), Numa(gpu.numa_node), YesNo(gpu.attributes.dma_buf),
               YesNo(gpu.attributes.gpu_direct), ToString(gpu.attributes.writes_ordering)});
  }
  return Section("GPUs", table) + (broken.empty() ? "" : "GPUs that do not open\n" + broken + "\n");
}

std::string Topology(const Files& files, const Survey& survey) {
  std::vector<std::string> head{"DISTANCE"};
  for (const NicInfo& nic : survey.nics) head.push_back(nic.name);
  Table table(head);
  std::set<host::PciDistance> seen;
  for (const GpuInfo& gpu : survey.gpus) {
    std::vector<std::string> row{gpu.name};
    for (const NicInfo& nic : survey.nics) {
      const host::PciDistance distance = Distance(files, gpu.function, nic.function);
      row.emplace_back(ToString(distance));
      seen.insert(distance);
    }
    table.Add(row);
  }
  if (seen.empty()) return "";
  std::string text = "Topology\n" + table.ToString();
  for (const host::PciDistance distance : seen)
    text += std::string("  ") + ToString(distance) + ": " + Describe(distance) + "\n";
  return text + "\n";
}

}  // namespace

std::string InfoText(const Files& files, const Survey& survey, const DeviceSelection& selection) {
  std::string text = Devices(files, survey) + Capabilities(survey) + Ports(survey) + Gids(survey, selection) +
                     Selected(survey, selection) + Gpus(survey) + Topology(files, survey);
  if (text.ends_with("\n\n")) text.pop_back();
  return text;
}

}  // namespace warpverbs::programs
