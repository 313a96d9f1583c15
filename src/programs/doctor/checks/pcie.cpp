#include <set>

#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"
#include "machine/pci.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::programs {
namespace {

/// The functions of all NICs and GPUs that are hardware, each with its name.
std::vector<std::pair<std::string, std::string>> Functions(const Machine& machine) {
  std::vector<std::pair<std::string, std::string>> functions;
  for (const Nic& nic : machine.survey.nics)
    if (!nic.is_software() && !nic.function.empty()) functions.emplace_back(nic.name, nic.function);
  for (const GpuSeen& gpu : machine.survey.gpus)
    if (!gpu.function.empty()) functions.emplace_back(gpu.name, gpu.function);
  return functions;
}

constexpr char kNoFunction[] = "there is neither a NIC nor a GPU of hardware";

/// What the kernel was told about the IOMMU: "iommu=pt".
bool KernelWasTold(const Machine& machine, const std::string& option) {
  const std::string line = " " + machine.files.Text("/proc/cmdline") + " ";
  return line.find(" " + option + " ") != std::string::npos;
}

/// The nearest NIC of hardware to a GPU; null where none is known to be anywhere.
const Nic* Nearest(const Machine& machine, const GpuSeen& gpu, host::PciDistance& distance) {
  const Nic* nearest = nullptr;
  distance = host::PciDistance::kUnknown;
  for (const Nic& nic : machine.survey.nics) {
    const host::PciDistance to_nic = Distance(machine.files, gpu.function, nic.function);
    if (nic.is_software() || to_nic >= distance) continue;
    distance = to_nic;
    nearest = &nic;
  }
  return nearest;
}

}  // namespace

Outcome CheckDistance(const Machine& machine) {
  Findings findings;
  for (const GpuSeen& gpu : machine.survey.gpus) {
    if (!gpu.usable()) continue;
    host::PciDistance distance;
    const Nic* const nic = Nearest(machine, gpu, distance);
    if (nic == nullptr) {
      findings.Skip(gpu.name + ": how far a NIC is, is not known");
      continue;
    }
    const std::string found =
        nic->name + " to " + gpu.name + ": " + ToString(distance) + ", " + Describe(distance);
    if (distance <= host::PciDistance::kPxb)
      findings.Pass(found);
    else
      findings.Warn(found,
                    "Move the NIC or the GPU to a slot behind the same PCIe switch; some processors "
                    "slow down or refuse what passes through them");
  }
  return findings.empty() ? Skip(kNoGpu) : findings.Sum();
}

Outcome CheckPcieLink(const Machine& machine) {
  Findings findings;
  for (const Nic& nic : machine.survey.nics) {
    if (nic.is_software()) continue;
    const auto now = ReadPciLink(machine.files, nic.function, "current");
    const auto most = ReadPciLink(machine.files, nic.function, "max");
    if (!now || !most)
      findings.Skip(nic.name + ": the kernel does not tell");
    else if (now->gigatransfers >= most->gigatransfers && now->lanes >= most->lanes)
      findings.Pass(nic.name + ": " + now->text);
    else
      findings.Warn(nic.name + ": " + now->text + " of " + most->text,
                    "Seat the card again, or move it to a slot of its full speed and width, and check the "
                    "slot's settings in the firmware");
  }
  return findings.empty() ? Skip("there is no NIC of hardware") : findings.Sum();
}

Outcome CheckAcs(const Machine& machine) {
  std::set<std::string> bridges;
  for (const auto& [name, function] : Functions(machine))
    for (const std::string& bridge : BridgesAbove(function)) bridges.insert(bridge);
  if (Functions(machine).empty()) return Skip(kNoFunction);
  if (bridges.empty()) return Skip("no bridge is seen above them, as in a virtual machine");
  std::vector<std::string> redirecting;
  for (const std::string& bridge : bridges) {
    const AcsReading reading = ReadAcs(machine.files, bridge);
    if (!reading.readable) return Skip("only root sees the bridges' registers: run this as root");
    if (reading.control.value_or(0) & kAcsRedirects) redirecting.push_back(PciAddress(bridge));
  }
  if (redirecting.empty())
    return {Verdict::kPass, "none of " + std::to_string(bridges.size()) + " bridges redirects", ""};
  return {Verdict::kWarn, "redirecting: " + Join(redirecting),
          "Turn ACS off in the firmware, or for each of them until the next boot by `setpci -s " +
              redirecting.front() + " ECAP_ACS+0x6.w=0000`; a virtual machine needs ATS instead"};
}

Outcome CheckIommu(const Machine& machine) {
  if (Functions(machine).empty()) return Skip(kNoFunction);
  const std::vector<std::string> units = machine.files.List("/sys/class/iommu");
  if (units.empty()) return {Verdict::kPass, "the kernel uses none", ""};
  const bool passes = KernelWasTold(machine, "iommu=pt") || KernelWasTold(machine, "iommu.passthrough=1");
  std::vector<std::string> translated;
  for (const auto& [name, function] : Functions(machine)) {
    const std::string type = machine.files.Text(function + "/iommu_group/type");
    if (type.empty() ? !passes : type != "identity")
      translated.push_back(name + (type.empty() ? "" : " (" + type + ")"));
  }
  const std::string found = std::to_string(units.size()) + (units.size() == 1 ? " unit" : " units");
  if (translated.empty()) return {Verdict::kPass, found + ", passing through", ""};
  return {Verdict::kWarn, found + ", translating for " + Join(translated),
          "Boot the kernel with `iommu=pt`, or turn the IOMMU off in the firmware, unless virtual machines "
          "need it"};
}

}  // namespace warpverbs::programs
