#include "warpverbs/host/topology.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <system_error>
#include <tuple>

#include "topology/sysfs.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

namespace fs = std::filesystem;

/// Turns "4: ACTIVE" into "active".
std::string ParseState(const std::string& line) {
  const size_t colon = line.find(": ");
  if (colon == std::string::npos) return "unknown";
  std::string word = line.substr(colon + 2);
  std::transform(word.begin(), word.end(), word.begin(), [](unsigned char c) { return std::tolower(c); });
  return word;
}

NicPort ReadPort(const fs::path& folder, uint8_t number) {
  NicPort port{.number = number, .state = ParseState(ReadLine(folder / "state"))};
  port.active = port.state == "active";
  if (ReadLine(folder / "link_layer") == "InfiniBand") port.link_layer = LinkLayer::kInfiniBand;
  const std::string rate = ReadLine(folder / "rate");  // "2.5 Gb/sec (1X SDR)", independent of the locale
  std::from_chars(rate.data(), rate.data() + rate.size(), port.rate_gbps);
  return port;
}

std::vector<NicPort> ReadPorts(const fs::path& folder) {
  std::vector<NicPort> ports;
  for (const std::string& name : NamesIn(folder)) {
    uint8_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && *end == '\0') ports.push_back(ReadPort(folder / name, number));
  }
  std::sort(ports.begin(), ports.end(),
            [](const NicPort& a, const NicPort& b) { return a.number < b.number; });
  return ports;
}

/// Returns the PCI function of a device, or the parent function of a scalable function.
std::optional<PciFunction> FunctionAbove(const fs::path& sysfs, fs::path folder) {
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if (const auto address = PciAddress::Find(folder.filename().native())) {
      return ReadPciFunction(sysfs, *address);
    }
  }
  return std::nullopt;
}

std::optional<Nic> ReadNic(const fs::path& sysfs, const std::string& name) {
  const fs::path folder = sysfs / "class/infiniband" / name;
  std::error_code error;
  if (!fs::exists(folder, error)) return std::nullopt;
  Nic nic{.name = name};
  // A software device may share the PCI function, and then shows the driver of that function, but never its
  // own HCA type.
  const std::string driver = fs::read_symlink(folder / "device/driver", error).filename();
  nic.connectx = driver.starts_with("mlx5_core") && ReadLine(folder / "hca_type").starts_with("MT");
  const fs::path device = fs::canonical(folder / "device", error);
  if (!error) nic.pci = FunctionAbove(sysfs, device);
  nic.ports = ReadPorts(folder / "ports");
  return nic;
}

}  // namespace

bool IsGpu(const PciFunction& function) {
  constexpr uint16_t kNvidia = 0x10de, kAmd = 0x1002;
  constexpr uint16_t kVga = 0x0300, k3d = 0x0302, kOtherDisplay = 0x0380, kAccelerator = 0x1200;
  const uint16_t is = function.class_code;
  if (function.vendor == kNvidia) return is == kVga || is == k3d;
  return function.vendor == kAmd && (is == kAccelerator || is == k3d || is == kOtherDisplay);
}

Topology ReadTopology(const fs::path& sysfs) {
  Topology topology;
  for (const PciAddress& address : PciAddresses(sysfs)) {
    const auto function = ReadPciFunction(sysfs, address);
    if (function && IsGpu(*function)) topology.gpus.push_back(*function);
  }
  for (const std::string& name : NamesIn(sysfs / "class/infiniband")) {
    if (auto nic = ReadNic(sysfs, name)) topology.nics.push_back(*std::move(nic));
  }
  std::sort(topology.nics.begin(), topology.nics.end(), [](const Nic& a, const Nic& b) {
    const auto key = [](const Nic& nic) {
      return std::tuple(!nic.pci, nic.pci ? nic.pci->address : PciAddress{}, std::string_view(nic.name));
    };
    return key(a) < key(b);
  });
  return topology;
}

PciDistance Distance(const PciFunction& gpu, const Nic& nic) {
  return nic.pci ? Distance(gpu, *nic.pci) : PciDistance::kUnknown;
}

}  // namespace warpverbs::inline v0_2::host
