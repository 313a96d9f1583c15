#include <algorithm>
#include <charconv>
#include <cstdio>
#include <system_error>

#include "topology/sysfs.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/topology.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

namespace fs = std::filesystem;

/// Takes `least` to `most` hexadecimal digits off the front of a text, up to `separator` or the end.
std::optional<uint32_t> TakeHex(std::string_view& text, char separator, size_t least, size_t most) {
  const size_t length = std::min(text.find(separator), text.size());
  if (length < least || length > most) return std::nullopt;
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + length, number, 16);
  if (error != std::errc() || end != text.data() + length) return std::nullopt;
  text.remove_prefix(std::min(length + 1, text.size()));
  return number;
}

fs::path LinkOf(const fs::path& sysfs, const PciAddress& address) {
  return sysfs / "bus/pci/devices" / ToString(address);
}

}  // namespace

std::optional<PciAddress> PciAddress::Find(std::string_view text) {
  const bool has_domain = std::count(text.begin(), text.end(), ':') == 2;
  const auto domain_number = has_domain ? TakeHex(text, ':', 4, 8) : std::optional<uint32_t>(0);
  if (!domain_number || text.size() != std::string_view("41:00.0").size()) return std::nullopt;
  const auto bus_number = TakeHex(text, ':', 2, 2);
  const auto device_number = TakeHex(text, '.', 2, 2);
  const auto function_number = TakeHex(text, '\0', 1, 1);
  if (!bus_number || !device_number || !function_number) return std::nullopt;
  if (*device_number > 31 || *function_number > 7) return std::nullopt;
  return PciAddress{*domain_number, static_cast<uint8_t>(*bus_number), static_cast<uint8_t>(*device_number),
                    static_cast<uint8_t>(*function_number)};
}

PciAddress PciAddress::Parse(std::string_view text) {
  if (const auto address = Find(text)) return *address;
  throw Error("read", "the PCI address '" + std::string(text) + "'",
              "it is not of the form domain:bus:device.function", "Write it as lspci -D does: 0000:41:00.0");
}

PciDistance Distance(const PciFunction& a, const PciFunction& b) {
  if (a.address == b.address) return PciDistance::kSelf;
  if (!a.host_bridge.empty() && a.host_bridge == b.host_bridge) {
    const auto [end_a, end_b] =
        std::mismatch(a.bridges.begin(), a.bridges.end(), b.bridges.begin(), b.bridges.end());
    if (end_a == a.bridges.begin()) return PciDistance::kPhb;
    const auto below_common = std::max(a.bridges.end() - end_a, b.bridges.end() - end_b);
    return below_common <= 1 ? PciDistance::kPix : PciDistance::kPxb;
  }
  if (a.numa_node < 0 || b.numa_node < 0) return PciDistance::kUnknown;
  return a.numa_node == b.numa_node ? PciDistance::kNode : PciDistance::kSystem;
}

std::optional<PciFunction> ReadPciFunction(const fs::path& sysfs, const PciAddress& address) {
  std::error_code error;
  const fs::path folder = fs::canonical(LinkOf(sysfs, address), error);
  if (error) return std::nullopt;
  PciFunction function{.address = address};
  // .../devices/pci0000:40/0000:40:01.1/0000:41:00.0: every address below the host bridge is a bridge.
  for (const fs::path& part : folder) {
    const std::string name = part;
    const auto part_address = PciAddress::Find(name);
    if (name.starts_with("pci")) {
      function.host_bridge = name;
      function.bridges.clear();
    } else if (part_address && *part_address != address && !function.host_bridge.empty()) {
      function.bridges.push_back(*part_address);
    }
  }
  function.vendor = static_cast<uint16_t>(ReadNumber(folder / "vendor").value_or(0));
  function.class_code = static_cast<uint16_t>(ReadNumber(folder / "class").value_or(0) >> 8);
  function.numa_node = static_cast<int>(ReadNumber(folder / "numa_node").value_or(-1));
  return function;
}

std::vector<PciAddress> PciAddresses(const fs::path& sysfs) {
  std::vector<PciAddress> addresses;
  for (const std::string& name : NamesIn(sysfs / "bus/pci/devices")) {
    if (const auto address = PciAddress::Find(name)) addresses.push_back(*address);
  }
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

std::string ToString(const PciAddress& address) {
  char text[24];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", address.domain, address.bus, address.device,
                address.function);
  return text;
}

const char* ToString(PciDistance distance) {
  switch (distance) {
    case PciDistance::kSelf:
      return "X";
    case PciDistance::kPix:
      return "PIX";
    case PciDistance::kPxb:
      return "PXB";
    case PciDistance::kPhb:
      return "PHB";
    case PciDistance::kNode:
      return "NODE";
    case PciDistance::kSystem:
      return "SYS";
    case PciDistance::kUnknown:
      return "?";
  }
  return "?";
}

const char* Describe(PciDistance distance) {
  switch (distance) {
    case PciDistance::kSelf:
      return "the same function";
    case PciDistance::kPix:
      return "through at most one PCIe switch";
    case PciDistance::kPxb:
      return "through several PCIe switches";
    case PciDistance::kPhb:
      return "through a host bridge";
    case PciDistance::kNode:
      return "between host bridges of one NUMA node";
    case PciDistance::kSystem:
      return "between NUMA nodes";
    case PciDistance::kUnknown:
      return "at an unknown distance";
  }
  return "at an unknown distance";
}

}  // namespace warpverbs::inline v0_2::host
