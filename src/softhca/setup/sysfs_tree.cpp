#include <cstdio>
#include <fstream>
#include <string>
#include <system_error>

#include "core/identity.hpp"
#include "core/limits.hpp"
#include "setup/settings.hpp"

namespace softhca {
namespace {

namespace fs = std::filesystem;

template <class... Args>
std::string Format(const char* format, Args... args) {
  char text[256];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

void Write(const fs::path& file, const std::string& text) {
  std::ofstream stream(file);
  stream << text << '\n';
  if (!stream.flush())
    throw fs::filesystem_error("cannot write", file, std::make_error_code(std::errc::io_error));
}

std::string GuidText(uint64_t guid) {
  const auto part = [&](int shift) { return static_cast<unsigned>(guid >> shift & 0xffff); };
  return Format("%04x:%04x:%04x:%04x", part(48), part(32), part(16), part(0));
}

std::string GidText(const Gid& gid) {
  std::string text;
  for (size_t i = 0; i < gid.size(); i += 2)
    text += Format("%s%02x%02x", i == 0 ? "" : ":", gid[i], gid[i + 1]);
  return text;
}

void WriteGids(const fs::path& folder, const DeviceConfig& device, const PortConfig& port) {
  fs::create_directories(folder / "gids");
  fs::create_directories(folder / "gid_attrs/types");
  fs::create_directories(folder / "gid_attrs/ndevs");
  for (uint32_t i = 0; i < limits::GidTableSize(device.link); ++i) {
    const std::string index = std::to_string(i);
    const bool used = i < port.gids.size();
    Write(folder / "gids" / index, GidText(used ? port.gids[i].gid : Gid{}));
    if (!used) continue;
    const bool v2 = port.gids[i].version == mlx5::RoceVersion::kV2;
    Write(folder / "gid_attrs/types" / index, v2 ? "RoCE v2" : "IB/RoCE v1");
    if (!port.interface.empty()) Write(folder / "gid_attrs/ndevs" / index, port.interface);
  }
}

void WritePort(const fs::path& folder, const DeviceConfig& device, const PortConfig& port) {
  const bool ethernet = device.link == mlx5::PortType::kEthernet;
  WriteGids(folder, device, port);
  fs::create_directories(folder / "pkeys");
  for (uint32_t i = 0; i < limits::PkeyTableSize(device.link); ++i)
    Write(folder / "pkeys" / std::to_string(i), Format("0x%04x", limits::Pkey(device.link, i)));
  Write(folder / "state", port.up ? "4: ACTIVE" : "1: DOWN");
  Write(folder / "phys_state", port.up ? "5: LinkUp" : ethernet ? "3: Disabled" : "2: Polling");
  Write(folder / "link_layer", ethernet ? "Ethernet" : "InfiniBand");
  Write(folder / "lid", Format("0x%x", port.lid));
  Write(folder / "lid_mask_count", "0");
  Write(folder / "sm_lid", Format("0x%x", ethernet ? 0 : limits::kSubnetManagerLid));
  Write(folder / "sm_sl", "0");
  Write(folder / "cap_mask", Format("0x%08x", limits::PortCapabilities(device.link)));
  const char* const rate_without_link = ethernet ? "40 Gb/sec (4X QDR)" : "10 Gb/sec (4X SDR)";
  Write(folder / "rate", port.up ? "400 Gb/sec (4X NDR)" : rate_without_link);
}

void WritePciFunction(const fs::path& folder, const DeviceConfig& device) {
  using namespace identity;
  const unsigned subclass = device.link == mlx5::PortType::kEthernet ? 0x00 : 0x07;
  const std::string alias =
      Format("pci:v%08Xd%08Xsv%08Xsd%08Xbc02sc%02Xi00", kPciVendor, kPciDevice, kPciVendor, 1, subclass);
  Write(folder / "vendor", Format("0x%04x", kPciVendor));
  Write(folder / "device", Format("0x%04x", kPciDevice));
  Write(folder / "subsystem_vendor", Format("0x%04x", kPciVendor));
  Write(folder / "subsystem_device", "0x0001");
  Write(folder / "class", Format("0x02%02x00", subclass));
  Write(folder / "revision", "0x00");
  Write(folder / "modalias", alias);
  Write(folder / "uevent", Format("DRIVER=mlx5_core\nPCI_ID=%04X:%04X\nPCI_SLOT_NAME=%s\nMODALIAS=%s",
                                  kPciVendor, kPciDevice, folder.filename().c_str(), alias.c_str()));
  Write(folder / "numa_node", "-1");
  Write(folder / "max_link_speed", "32.0 GT/s PCIe");
  Write(folder / "max_link_width", "16");
  Write(folder / "current_link_speed", "32.0 GT/s PCIe");
  Write(folder / "current_link_width", "16");
}

/// Names the host's interface below the PCI function. Two ports of a function may share one.
void LinkInterface(const fs::path& folder, const std::string& interface) {
  if (interface.empty() || fs::is_symlink(folder / interface)) return;
  fs::create_directories(folder);
  fs::create_symlink("/sys/class/net" / fs::path(interface), folder / interface);
}

void WriteHca(const fs::path& folder, const DeviceConfig& device) {
  using namespace identity;
  Write(folder / "node_type", "1: CA");
  Write(folder / "node_guid", GuidText(device.guid));
  Write(folder / "sys_image_guid", GuidText(device.guid));
  Write(folder / "node_desc", device.name + " (softhca)");
  Write(folder / "fw_ver", Format("%u.%u.%u", kFirmwareMajor, kFirmwareMinor, kFirmwarePatch));
  Write(folder / "board_id", kBoard);
  Write(folder / "hca_type", Format("MT%u", kPciDevice));
  Write(folder / "hw_rev", "0");
}

void WriteDevice(const fs::path& root, const DeviceConfig& device, uint32_t index) {
  const std::string address = Format("%s:%02x:00.0", identity::kPciDomain, index);
  const fs::path function = fs::path("devices") / Format("pci%s:%02x", identity::kPciDomain, index) / address;
  const std::string node = Format("uverbs%u", index);
  const fs::path hca = function / "infiniband" / device.name;
  const fs::path uverbs = function / "infiniband_verbs" / node;
  fs::create_directories(root / hca);
  fs::create_directories(root / uverbs);
  WritePciFunction(root / function, device);
  WriteHca(root / hca, device);
  for (uint32_t port = 1; port <= device.ports.size(); ++port) {
    const PortConfig& config = device.ports[port - 1];
    LinkInterface(root / function / "net", config.interface);
    WritePort(root / hca / "ports" / std::to_string(port), device, config);
  }
  Write(root / uverbs / "dev", Format("%u:%u", identity::kUverbsMajor, identity::kUverbsFirstMinor + index));
  Write(root / uverbs / "abi_version", "1");
  Write(root / uverbs / "ibdev", device.name);

  fs::create_symlink("../../.." / function, root / "bus/pci/devices" / address);
  fs::create_symlink("../../../bus/pci", root / function / "subsystem");
  fs::create_symlink("../../../bus/pci/drivers/mlx5_core", root / function / "driver");
  fs::create_symlink("../../../../../class/infiniband", root / hca / "subsystem");
  fs::create_symlink("../../../../../class/infiniband_verbs", root / uverbs / "subsystem");
  fs::create_symlink("../..", root / hca / "device");
  fs::create_symlink("../..", root / uverbs / "device");
  fs::create_symlink("../.." / hca, root / "class/infiniband" / device.name);
  fs::create_symlink("../.." / uverbs, root / "class/infiniband_verbs" / node);
  Write(root / "dev/infiniband" / node, "");
}

}  // namespace

void BuildSysfsTree(const fs::path& root, const std::vector<DeviceConfig>& devices, const fs::path& modules) {
  fs::create_directories(root / "class/infiniband");
  fs::create_directories(root / "class/infiniband_verbs");
  fs::create_directories(root / "bus/pci/devices");
  fs::create_directories(root / "bus/pci/drivers/mlx5_core");
  fs::create_directories(root / "dev/infiniband");
  Write(root / "class/infiniband_verbs/abi_version", "6");
  fs::create_directories(root / "class/misc/rdma_cm");
  Write(root / "class/misc/rdma_cm/abi_version", "4");
  Write(root / "class/misc/rdma_cm/dev", Format("%u:%u", identity::kMiscMajor, identity::kRdmaCmMinor));
  Write(root / "dev/infiniband/rdma_cm", "");
  if (std::string version; std::ifstream(modules / "nvidia/version") >> version) {
    fs::create_directories(root / "module/nvidia_peermem");
    Write(root / "module/nvidia_peermem/version", version);
  }
  // rdma-core lists the devices as readdir() does, and a tmpfs lists the newest entry first.
  for (size_t i = devices.size(); i-- > 0;) WriteDevice(root, devices[i], static_cast<uint32_t>(i));
}

}  // namespace softhca
