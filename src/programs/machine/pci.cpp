#include "machine/pci.hpp"

#include <cstdlib>

namespace warpverbs::programs {
namespace {

constexpr char kFunctions[] = "/sys/bus/pci/devices/";
constexpr size_t kConfigBytes = 4096;
constexpr size_t kPlainConfigBytes = 256;  // extended capabilities begin at this offset
constexpr size_t kHeaderBytes = 4;
constexpr uint16_t kAcs = 0x000d;
constexpr size_t kAcsControl = 6;  // from the capability's start

std::string LastPart(const std::string& path) { return path.substr(path.rfind('/') + 1); }

uint32_t Word(std::span<const uint8_t> bytes, size_t at) {
  return bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | static_cast<uint32_t>(bytes[at + 3]) << 24;
}

/// Returns what the library reads of a function.
std::optional<host::PciFunction> Known(const Files& files, const std::string& function) {
  const auto address = host::PciAddress::Find(LastPart(function));
  return address ? host::ReadPciFunction(files.sysfs(), *address) : std::nullopt;
}

}  // namespace

std::string PciFolder(const Files& files, const std::string& address) {
  return address.empty() ? "" : files.Resolve(kFunctions + address);
}

std::string PciAddressOf(const std::string& function) {
  const std::string name = LastPart(function);
  return host::PciAddress::Find(name) ? name : "";
}

std::vector<std::string> BridgesAbove(const std::string& function) {
  std::vector<std::string> bridges;
  if (PciAddressOf(function).empty()) return bridges;
  std::string parent = function.substr(0, function.rfind('/'));
  for (; !PciAddressOf(parent).empty(); parent.resize(parent.rfind('/'))) bridges.push_back(parent);
  return bridges;
}

int NumaNode(const Files& files, const std::string& function) {
  const auto known = Known(files, function);
  return known ? known->numa_node : -1;
}

host::PciDistance Distance(const Files& files, const std::string& a, const std::string& b) {
  const auto here = Known(files, a), there = Known(files, b);
  return here && there ? host::Distance(*here, *there) : host::PciDistance::kUnknown;
}

std::vector<std::string> FindFunctions(const Files& files, uint16_t vendor, uint8_t device_class) {
  std::vector<std::string> found;
  for (const host::PciAddress& address : host::PciAddresses(files.sysfs())) {
    const auto function = host::ReadPciFunction(files.sysfs(), address);
    if (function && function->vendor == vendor && function->class_code >> 8 == device_class)
      found.push_back(ToString(address));
  }
  return found;
}

std::optional<PciLink> ReadPciLink(const Files& files, const std::string& function,
                                   const std::string& which) {
  const std::string speed = files.ReadOrEmpty(function + "/" + which + "_link_speed");
  PciLink link{.gigatransfers = std::atof(speed.c_str()),
               .lanes = std::atoi(files.ReadOrEmpty(function + "/" + which + "_link_width").c_str())};
  if (link.gigatransfers <= 0 || link.lanes <= 0) return std::nullopt;  // "Unknown"
  link.text = speed.substr(0, speed.find(" PCIe")) + " x" + std::to_string(link.lanes);
  return link;
}

AcsState FindAcs(std::span<const uint8_t> config) {
  AcsState state{.readable = config.size() > kPlainConfigBytes};
  // An intact chain visits each offset at most once.
  size_t at = kPlainConfigBytes;
  for (size_t visits = 0; visits < kConfigBytes / kHeaderBytes; ++visits) {
    if (at < kPlainConfigBytes || at + kAcsControl + 2 > config.size()) break;
    const uint32_t header = Word(config, at);
    if ((header & 0xffff) == kAcs) {
      state.control = static_cast<uint16_t>(config[at + kAcsControl] | config[at + kAcsControl + 1] << 8);
      break;
    }
    at = header >> 20;
  }
  return state;
}

AcsState ReadAcs(const Files& files, const std::string& function) {
  return FindAcs(files.ReadBytes(function + "/config", kConfigBytes));
}

}  // namespace warpverbs::programs
