#include <iomanip>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "warpverbs/host/topology.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

struct TopologyRow {
  std::string name;
  std::optional<PciFunction> pci;
};

PciDistance BetweenRows(const TopologyRow& a, const TopologyRow& b) {
  if (a.name == b.name) return PciDistance::kSelf;
  return a.pci && b.pci ? Distance(*a.pci, *b.pci) : PciDistance::kUnknown;
}

std::string Place(const std::optional<PciFunction>& pci) {
  if (!pci) return "not on PCI";
  return ToString(pci->address) + ", NUMA node " +
         (pci->numa_node < 0 ? "unknown" : std::to_string(pci->numa_node));
}

std::string DescribePort(const NicPort& port) {
  std::ostringstream text;
  text << "port " << int{port.number} << " " << port.state << ", " << ToString(port.link_layer);
  if (port.active && port.rate_gbps > 0) text << ", " << port.rate_gbps << " Gb/s";
  return text.str();
}

}  // namespace

std::string Describe(const Topology& topology) {
  std::vector<TopologyRow> rows;
  std::ostringstream names;
  for (const PciFunction& gpu : topology.gpus) {
    rows.push_back({"GPU" + std::to_string(rows.size()), gpu});
    names << rows.back().name << ": " << Place(gpu) << "\n";
  }
  for (const Nic& nic : topology.nics) {
    rows.push_back({"NIC" + std::to_string(rows.size() - topology.gpus.size()), nic.pci});
    names << rows.back().name << ": " << nic.name << ", " << Place(nic.pci);
    for (const NicPort& port : nic.ports) names << "; " << DescribePort(port);
    names << "\n";
  }
  if (rows.empty()) return "neither GPUs nor RDMA devices\n";
  constexpr int kColumn = 7;
  std::ostringstream table;
  std::set<PciDistance> seen;
  table << std::left << std::setw(kColumn) << "";
  for (const TopologyRow& row : rows) table << std::setw(kColumn) << row.name;
  table << "\n";
  for (const TopologyRow& row : rows) {
    table << std::setw(kColumn) << row.name;
    for (const TopologyRow& other : rows) {
      const PciDistance distance = BetweenRows(row, other);
      seen.insert(distance);
      table << std::setw(kColumn) << ToString(distance);
    }
    table << "\n";
  }
  table << "\n" << names.str() << "\n";
  for (const PciDistance distance : seen) {
    table << std::setw(kColumn) << ToString(distance) << Describe(distance) << "\n";
  }
  return table.str();
}

}  // namespace warpverbs::inline v0_2::host
