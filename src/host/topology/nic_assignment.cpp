#include <algorithm>
#include <optional>

#include "log/log.hpp"
#include "topology/even_shares.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// A NIC with its port to use.
struct UsableNic {
  const Nic* nic;
  const NicPort* port;
};

/// Returns the first usable port, or nullptr and the reason.
const NicPort* UsablePort(const Nic& nic, const NicAssignmentConfig& config, std::string& why_not) {
  why_not = "it is not a ConnectX";
  if (!nic.connectx) return nullptr;
  why_not = "no port is active";
  for (const NicPort& port : nic.ports) {
    if (!port.active) continue;
    if (!config.may_use || config.may_use(nic, port)) return &port;
    why_not = "may_use() excludes it";
  }
  return nullptr;
}

std::vector<UsableNic> UsableNics(const Topology& topology, const NicAssignmentConfig& config) {
  std::vector<UsableNic> usable;
  std::string findings;
  for (const Nic& nic : topology.nics) {
    std::string why_not;
    if (const NicPort* port = UsablePort(nic, config, why_not)) {
      usable.push_back({&nic, port});
    } else {
      findings += (findings.empty() ? "" : "; ") + nic.name + ": " + why_not;
    }
  }
  if (usable.empty()) {
    throw Error(
        "assign", "NICs to GPUs",
        findings.empty() ? "this machine has no RDMA device" : "no NIC can be used (" + findings + ")",
        "Bring a link up (`ip link set DEV up`), or allow other NICs");
  }
  // Order breaks ties, so it must not depend on the caller's order.
  std::stable_sort(usable.begin(), usable.end(), [](const UsableNic& a, const UsableNic& b) {
    const auto& [pci_a, pci_b] = std::pair(a.nic->pci, b.nic->pci);
    if (!pci_a || !pci_b) return pci_a || pci_b ? pci_a.has_value() : a.nic->name < b.nic->name;
    if (pci_a->address != pci_b->address) return pci_a->address < pci_b->address;
    return a.nic->name < b.nic->name;
  });
  return usable;
}

/// Returns the GPUs by address. A GPU that sysfs does not show has an unknown place.
std::vector<PciFunction> FindGpus(const Topology& topology, std::span<const PciAddress> addresses) {
  std::vector<PciFunction> gpus;
  for (const PciAddress& address : addresses) {
    const auto known = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                    [&](const PciFunction& gpu) { return gpu.address == address; });
    gpus.push_back(known == topology.gpus.end() ? PciFunction{.address = address} : *known);
  }
  std::sort(gpus.begin(), gpus.end(),
            [](const PciFunction& a, const PciFunction& b) { return a.address < b.address; });
  const auto twice =
      std::adjacent_find(gpus.begin(), gpus.end(),
                         [](const PciFunction& a, const PciFunction& b) { return a.address == b.address; });
  if (twice != gpus.end()) {
    throw Error("assign", "NICs to the GPU " + ToString(twice->address), "it is named twice",
                "Name each GPU of the machine once");
  }
  return gpus;
}

/// Returns the nearest NICs that the GPU does not have yet, without those that are less than half as fast as
/// the fastest of them.
std::vector<size_t> NearestOf(const PciFunction& gpu, const std::vector<UsableNic>& nics,
                              const std::vector<size_t>& had) {
  std::vector<size_t> left;
  for (size_t i = 0; i < nics.size(); ++i) {
    if (std::find(had.begin(), had.end(), i) == had.end()) left.push_back(i);
  }
  PciDistance nearest = PciDistance::kUnknown;
  for (const size_t i : left) nearest = std::min(nearest, Distance(gpu, *nics[i].nic));
  std::erase_if(left, [&](size_t i) { return Distance(gpu, *nics[i].nic) != nearest; });
  double fastest = 0;
  for (const size_t i : left) fastest = std::max(fastest, nics[i].port->rate_gbps);
  std::erase_if(left, [&](size_t i) {
    const double rate = nics[i].port->rate_gbps;
    return rate > 0 && rate < fastest / 2;
  });
  return left;
}

std::string Reason(const NicChoice& choice, size_t rank, size_t rivals) {
  std::string text = rank == 0 ? "The nearest NIC" : "The nearest NIC that the GPU did not have yet";
  if (rivals > 1) text = "One of " + std::to_string(rivals) + " NICs that are equally near";
  text += std::string(", ") + Describe(choice.distance) + "; ";
  if (choice.gpus == 1) return text + "no other GPU uses it.";
  return text + std::to_string(choice.gpus) + " GPUs share it.";
}

}  // namespace

std::vector<GpuNics> AssignNics(const Topology& topology, std::span<const PciAddress> gpu_addresses,
                                const NicAssignmentConfig& config) {
  if (config.nics_per_gpu == 0) {
    throw Error("assign", "NICs to GPUs", "nics_per_gpu is 0", "Set nics_per_gpu to 1 or more");
  }
  const std::vector<UsableNic> nics = UsableNics(topology, config);
  const std::vector<PciFunction> gpus = FindGpus(topology, gpu_addresses);
  std::vector<size_t> loads(nics.size());
  std::vector<std::vector<size_t>> had(gpus.size());
  std::vector<std::vector<size_t>> rivals(gpus.size());
  const size_t rounds = std::min<size_t>(config.nics_per_gpu, nics.size());
  for (size_t round = 0; round < rounds; ++round) {
    std::vector<std::vector<size_t>> choices;
    for (size_t i = 0; i < gpus.size(); ++i) {
      choices.push_back(NearestOf(gpus[i], nics, had[i]));
      rivals[i].push_back(choices[i].size());
    }
    const std::vector<size_t> taken = ShareEvenly(choices, loads);
    for (size_t i = 0; i < gpus.size(); ++i) had[i].push_back(taken[i]);
  }
  std::vector<GpuNics> assignment;
  for (size_t i = 0; i < gpus.size(); ++i) {
    GpuNics& own = assignment.emplace_back(GpuNics{.gpu = gpus[i].address});
    for (size_t rank = 0; rank < rounds; ++rank) {
      const UsableNic& nic = nics[had[i][rank]];
      NicChoice choice{.name = nic.nic->name,
                       .port = nic.port->number,
                       .distance = Distance(gpus[i], *nic.nic),
                       .gpus = static_cast<uint32_t>(loads[had[i][rank]])};
      choice.reason = Reason(choice, rank, rivals[i][rank]);
      own.nics.push_back(std::move(choice));
    }
  }
  Log(LogLevel::kInfo, [&] { return "assigned NICs; " + Describe(assignment); });
  return assignment;
}

std::vector<GpuNics> AssignNics(const Topology& topology, const NicAssignmentConfig& config) {
  std::vector<PciAddress> gpus;
  gpus.reserve(topology.gpus.size());
  for (const PciFunction& gpu : topology.gpus) gpus.push_back(gpu.address);
  return AssignNics(topology, gpus, config);
}

std::string Describe(std::span<const GpuNics> assignment) {
  std::string text;
  for (const GpuNics& gpu : assignment) {
    for (const NicChoice& nic : gpu.nics) {
      text += "GPU " + ToString(gpu.gpu) + ": " + nic.name + " port " + std::to_string(nic.port) + " (" +
              ToString(nic.distance) + "). " + nic.reason + "\n";
    }
  }
  return text;
}

}  // namespace warpverbs::inline v0_2::host
