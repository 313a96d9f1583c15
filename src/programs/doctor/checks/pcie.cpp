#include <set>

#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"
#include "machine/pci.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::programs {
namespace {

/// Returns the functions of all hardware NICs and GPUs, each with its name.
std::vector<std::pair<std::string, std::string>> Functions(const Machine& machine) {
  std::vector<std::pair<std::string, std::string>> functions;
  for (const NicInfo& nic : machine.survey.nics)
    if (!nic.is_software() && !nic.function.empty()) functions.emplace_back(nic.name, nic.function);
  for (const GpuInfo& gpu : machine.survey.gpus)
    if (!gpu.function.empty()) functions.emplace_back(gpu.name, gpu.function);
  return functions;
}

constexpr char kNoFunction[] = "this machine has neither a hardware NIC nor a GPU";

/// Returns whether the kernel command line has an option: "iommu=pt".
bool HasKernelOption(const Machine& machine, const std::string& option) {
  const std::string line = " " + machine.files.ReadOrEmpty("/proc/cmdline") + " ";
  return line.find(" " + option + " ") != std::string::npos;
}

/// Returns the hardware NIC nearest to a GPU; null if no distance is known.
const NicInfo* Nearest(const Machine& machine, const GpuInfo& gpu, host::PciDistance& distance) {
  const NicInfo* nearest = nullptr;
  distance = host::PciDistance::kUnknown;
  for (const NicInfo& nic : machine.survey.nics) {
    const host::PciDistance to_nic = Distance(machine.files, gpu.function, nic.function);
    if (nic.is_software() || to_nic >= distance) continue;
    distance = to_nic;
    nearest = &nic;
  }
  return nearest;
}

}  // namespace

Finding CheckDistance(const Machine& machine) {
  Findings findings;
  for (const GpuInfo& gpu : machine.survey.gpus) {
    if (!gpu.usable()) continue;
    host::PciDistance distance;
    const NicInfo* const nic = Nearest(machine, gpu, distance);
    if (nic == nullptr) {
      findings.Skip(gpu.name + ": the distance of the NICs is unknown");
      continue;
    }
    const std::string found =
        nic->name + " to " + gpu.name + ": " + ToString(distance) + ", " + Describe(distance);
    if (distance <= host::PciDistance::kPxb)
      findings.Pass(found);
    else
      findings.Warn(found,
                    "Move the NIC or the GPU to a slot behind the same PCIe switch: some processors slow "
                    "down or refuse peer-to-peer traffic");
  }
  return findings.empty() ? Skip(kNoGpu) : findings.Combine();
}

Finding CheckPcieLink(const Machine& machine) {
  Findings findings;
  for (const NicInfo& nic : machine.survey.nics) {
    if (nic.is_software()) continue;
    const auto now = ReadPciLink(machine.files, nic.function, "current");
    const auto most = ReadPciLink(machine.files, nic.function, "max");
    if (!now || !most)
      findings.Skip(nic.name + ": the kernel does not report the link");
    else if (now->gigatransfers >= most->gigatransfers && now->lanes >= most->lanes)
      findings.Pass(nic.name + ": " + now->text);
    else
      findings.Warn(nic.name + ": " + now->text + " of " + most->text,
                    "Reseat the card, or move it to a slot with its full speed and width, and check the "
                    "slot's settings in the firmware");
  }
  return findings.empty() ? Skip("this machine has no hardware NIC") : findings.Combine();
}

Finding CheckAcs(const Machine& machine) {
  std::set<std::string> bridges;
  for (const auto& [name, function] : Functions(machine))
    for (const std::string& bridge : BridgesAbove(function)) bridges.insert(bridge);
  if (Functions(machine).empty()) return Skip(kNoFunction);
  if (bridges.empty()) return Skip("no PCIe bridge is visible, as in a virtual machine");
  std::vector<std::string> redirecting;
  for (const std::string& bridge : bridges) {
    const AcsState state = ReadAcs(machine.files, bridge);
    if (!state.readable) return Skip("only root can read the bridges' registers: run this as root");
    if (state.control.value_or(0) & kAcsRedirects) redirecting.push_back(PciAddressOf(bridge));
  }
  if (redirecting.empty())
    return {Verdict::kPass, "none of " + std::to_string(bridges.size()) + " bridges redirects traffic", ""};
  return {Verdict::kWarn,
          Join(redirecting) + (redirecting.size() == 1 ? " redirects" : " redirect") + " traffic",
          "Turn ACS off in the firmware, or until the next boot for each of these bridges by `setpci -s " +
              redirecting.front() + " ECAP_ACS+0x6.w=0000`. Virtual machines need ATS instead"};
}

Finding CheckIommu(const Machine& machine) {
  if (Functions(machine).empty()) return Skip(kNoFunction);
  const std::vector<std::string> units = machine.files.List("/sys/class/iommu");
  if (units.empty()) return {Verdict::kPass, "the kernel uses no IOMMU", ""};
  const bool passes = HasKernelOption(machine, "iommu=pt") || HasKernelOption(machine, "iommu.passthrough=1");
  std::vector<std::string> translated;
  for (const auto& [name, function] : Functions(machine)) {
    const std::string type = machine.files.ReadOrEmpty(function + "/iommu_group/type");
    if (type.empty() ? !passes : type != "identity")
      translated.push_back(name + (type.empty() ? "" : " (" + type + ")"));
  }
  const std::string found =
      std::to_string(units.size()) + (units.size() == 1 ? " IOMMU unit" : " IOMMU units");
  if (translated.empty()) return {Verdict::kPass, found + ", in pass-through mode", ""};
  return {Verdict::kWarn, found + ", translating for " + Join(translated),
          "Boot the kernel with `iommu=pt`, or turn the IOMMU off in the firmware, unless virtual machines "
          "need it"};
}

}  // namespace warpverbs::programs
