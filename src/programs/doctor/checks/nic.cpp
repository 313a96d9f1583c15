#include <cstdlib>
#include <regex>

#include "doctor/check.hpp"
#include "doctor/checks/subjects.hpp"
#include "machine/pci.hpp"

namespace warpverbs::programs {
namespace {

constexpr uint16_t kNicVendor = 0x15b3;
constexpr uint8_t kNetworkClass = 0x02;
constexpr int kLeastRdmaCore = 44;

/// Returns "44.0" for "libibverbs.so.1.14.44.0".
///
/// @source  rdma-core, libibverbs/CMakeLists.txt: the library's version ends in the package's
std::string VersionInName(const std::string& file) {
  std::smatch match;
  const std::regex form(R"(libibverbs\.so\.1\.[0-9]+\.([0-9]+(\.[0-9]+)*))");
  return std::regex_match(file, match, form) ? match[1].str() : "";
}

std::string RemedyForLink(const NicInfo& nic, const PortInfo& port) {
  if (nic.is_software()) return "Start softhca without --port-down";
  const std::string check = "Check the cable and the switch, and ";
  if (port.port.link_layer != host::LinkLayer::kEthernet)
    return check + "check that a subnet manager runs (opensm)";
  return check + "bring the link up (`ip link set " + (port.interface.empty() ? "DEV" : port.interface) +
         " up`)";
}

}  // namespace

Finding CheckNics(const Machine& machine) {
  const Survey& survey = machine.survey;
  if (!survey.problem.empty()) return {Verdict::kFail, survey.problem, survey.remedy};
  if (survey.nics.empty()) {
    const auto functions = FindFunctions(machine.files, kNicVendor, kNetworkClass);
    if (functions.empty())
      return {Verdict::kFail, "this machine has no ConnectX",
              "Install a ConnectX, or run this program under softhca (`softhca -- warpverbs-doctor`)"};
    return {Verdict::kFail, "the kernel has no RDMA device for the ConnectX at " + Join(functions),
            "Load mlx5_ib (`modprobe mlx5_ib`), and pass /dev/infiniband to a container"};
  }
  Findings findings;
  for (const NicInfo& nic : survey.nics) {
    if (!nic.usable()) {
      findings.Fail(nic.name + ": " + nic.problem, nic.remedy);
      continue;
    }
    const std::string address = PciAddressOf(nic.function);
    findings.Pass(nic.name + (address.empty() ? "" : " at " + address) + ", firmware " +
                  nic.capabilities.firmware + (nic.is_software() ? ", softhca" : ""));
  }
  return findings.Combine();
}

Finding CheckRdmaCore(const Machine& machine) {
  const VerbsLibrary& verbs = machine.process.verbs;
  const std::string version = VersionInName(verbs.file);
  const std::string package = verbs.package.empty() ? "" : " (package " + verbs.package + ")";
  const std::string remedy =
      "Install rdma-core 44 or later (packages libibverbs1 and ibverbs-providers), and check that "
      "LD_LIBRARY_PATH does not select an older version";
  Findings findings;
  if (!version.empty()) {
    const std::string found = "version " + version + package;
    if (std::atoi(version.c_str()) >= kLeastRdmaCore)
      findings.Pass(found);
    else
      findings.Fail(found, remedy);
  } else if (verbs.at_least >= kLeastRdmaCore) {
    findings.Pass("version " + std::to_string(verbs.at_least) + " or later, from its symbols" + package);
  } else if (verbs.at_least >= 42) {  // versions 43 to 53 added no symbol
    findings.Warn("version 42 or later, from its symbols" + package, remedy);
  } else {
    findings.Fail("a version before 42, from its symbols" + package, remedy);
  }
  return findings.Combine();
}

Finding CheckLink(const Machine& machine) {
  if (UsableNics(machine).empty()) return Skip(kNoNic);
  Findings findings;
  bool any_active = false;
  for (const NicInfo* const nic : UsableNics(machine))
    for (const PortInfo& port : nic->ports) any_active = any_active || port.port.active;
  for (const NicInfo* const nic : UsableNics(machine)) {
    for (const PortInfo& port : nic->ports) {
      const std::string found = PortName(*nic, port) + " is " + port.port.state;
      const std::string remedy = RemedyForLink(*nic, port);
      if (port.port.active)
        findings.Pass(found + (port.rate.empty() ? "" : ", " + port.rate));
      else if (any_active)
        findings.Warn(found, remedy);
      else
        findings.Fail(found, remedy);
    }
  }
  return findings.Combine();
}

Finding CheckGid(const Machine& machine) {
  Findings findings;
  for (const auto& [nic, port] : ActivePorts(machine)) {
    const std::string name = PortName(*nic, *port);
    const std::string interface = port->interface.empty() ? "DEV" : port->interface;
    const std::string give =
        "Give the network interface an IP address that the peers can reach (`ip addr add "
        "ADDRESS/PREFIX dev " +
        interface + "`)";
    const host::GidEntry* const best = host::BestGid(port->gids);
    if (best == nullptr) {
      findings.Fail(name + " has no GID",
                    give + ". A container needs the network namespace of the interface");
      continue;
    }
    const std::string found = name + ": GID " + std::to_string(best->index) + ", " + ToString(best->gid) +
                              ", " + ToString(best->type);
    const bool roce = port->port.link_layer == host::LinkLayer::kEthernet;
    if (roce && best->type != host::GidType::kRoceV2)
      findings.Fail(found + " is the best",
                    "Configure the port for RoCE v2 (`cma_roce_mode`, or the driver's "
                    "default), which routers forward");
    else if (roce && host::IsLinkLocal(best->gid))
      findings.Warn(found + " is link-local", give + ": routers do not forward link-local addresses");
    else
      findings.Pass(found);
  }
  return findings.empty() ? Skip(NoPort(machine)) : findings.Combine();
}

Finding CheckChoice(const Machine& machine) {
  if (ActivePorts(machine).empty()) return Skip(NoPort(machine));
  const PortChoice choice = ChoosePort(machine.survey, machine.selection);
  const std::string found = machine.selection.Describe(choice.where, choice.gid_index);
  if (choice.problem.empty()) return {Verdict::kPass, found, ""};
  return {Verdict::kFail, found + ": " + choice.problem,
          "Select a GID that `warpverbs-info` lists, or none, and see the check gid"};
}

Finding CheckMtu(const Machine& machine) {
  Findings findings;
  for (const auto& [nic, port] : ActivePorts(machine)) {
    const uint32_t active = host::Bytes(port->port.active_mtu), most = host::Bytes(port->max_mtu);
    const std::string found =
        PortName(*nic, *port) + ": " + std::to_string(active) + " of " + std::to_string(most) + " bytes";
    if (active >= most) {
      findings.Pass(found);
      continue;
    }
    const std::string interface = port->interface.empty() ? "DEV" : port->interface;
    findings.Warn(found, port->port.link_layer == host::LinkLayer::kEthernet
                             ? "Set the interface's MTU to 4200 or more (`ip link set " + interface +
                                   " mtu 9000`), also on the peers and in all switches"
                             : std::string("Raise the MTU of the partition in the subnet manager"));
  }
  return findings.empty() ? Skip(NoPort(machine)) : findings.Combine();
}

Finding CheckAtomics(const Machine& machine) {
  Findings findings;
  for (const NicInfo* const nic : UsableNics(machine)) {
    const host::Capabilities& capabilities = nic->capabilities;
    if (!capabilities.atomics())
      findings.Warn(nic->name + " has no atomics",
                    "Use SignalSet(), a write, instead of SignalAdd() and other atomics");
    else if ((capabilities.atomic_sizes & 8) == 0)
      findings.Warn(nic->name + " has no atomics of 8 bytes in host byte order",
                    "Use SignalSet(), a write, instead of SignalAdd() and atomics of 8 bytes");
    else
      findings.Pass(nic->name + " has atomics of " +
                    ((capabilities.atomic_sizes & 4) != 0 ? "4 and 8 bytes" : "8 bytes"));
  }
  return findings.empty() ? Skip(kNoNic) : findings.Combine();
}

Finding CheckLoopback(const Machine& machine) {
  Findings findings;
  for (const auto& [nic, port] : ActivePorts(machine)) {
    try {
      findings.Pass(PortName(*nic, *port) + ": " + machine.transfer(nic->name, port->port.number));
    } catch (const std::exception& error) {
      std::string remedy;
      const std::string found = SplitRemedy(error, remedy);
      findings.Fail(PortName(*nic, *port) + ": " + found, remedy);
    }
  }
  return findings.empty() ? Skip(NoPort(machine)) : findings.Combine();
}

Finding CheckPeer(const Machine& machine) {
  if (!machine.test_with_peer)
    return Skip("no peer is given: use --listen on the other machine, and --peer HOST here");
  return {Verdict::kPass, machine.test_with_peer(), ""};  // throws on failure
}

}  // namespace warpverbs::programs
