#include "fake_machine.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace warpverbs::programs {
namespace {

namespace fs = std::filesystem;

constexpr char kSwitch[] = "/sys/devices/pci0000:3a/0000:3a:01.0/0000:3b:00.0";

host::Gid Ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
  host::Gid gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  gid.raw[12] = a, gid.raw[13] = b, gid.raw[14] = c, gid.raw[15] = d;
  return gid;
}

host::Gid LinkLocal() {
  host::Gid gid;
  gid.raw[0] = 0xfe, gid.raw[1] = 0x80, gid.raw[15] = 1;
  return gid;
}

NicInfo MakeNic(const std::string& function) {
  NicInfo nic;
  nic.name = "mlx5_0";
  nic.function = function;
  nic.board = "MT_0000000838";
  nic.vendor_part = 4129;
  nic.numa_node = 0;
  nic.capabilities.firmware = "28.39.1002";
  nic.capabilities.max_send_wqebbs = 32768;
  nic.capabilities.max_wqe_bytes = 1024;
  nic.capabilities.max_cqes = 1 << 22;
  nic.capabilities.log_max_message = 30;
  nic.capabilities.max_reads_out = nic.capabilities.max_reads_in = 16;
  nic.capabilities.atomic_operations = 3;
  nic.capabilities.atomic_sizes = 4 | 8;
  PortInfo port;
  port.port.number = 1;
  port.port.active = true;
  port.port.state = "active";
  port.port.active_mtu = mlx5::Mtu::k4096;
  port.max_mtu = mlx5::Mtu::k4096;
  port.rate = "400 Gb/sec (4X NDR)";
  port.interface = "ens1np0";
  port.gids = {{LinkLocal(), 0, host::GidType::kRoceV1},
               {LinkLocal(), 1, host::GidType::kRoceV2},
               {Ipv4(10, 0, 0, 1), 2, host::GidType::kRoceV1},
               {Ipv4(10, 0, 0, 1), 3, host::GidType::kRoceV2}};
  nic.ports = {port};
  return nic;
}

GpuInfo MakeGpu(const std::string& function) {
  GpuInfo gpu;
  gpu.name = "cuda:0";
  gpu.model = "NVIDIA H200";
  gpu.address = "0000:41:00.0";
  gpu.function = function;
  gpu.numa_node = 0;
  gpu.attributes = {.dma_buf = true,
                    .gpu_direct = true,
                    .gpu_direct_vmm = true,
                    .host_flush = true,
                    .writes_ordering = host::WritesOrdering::kOwner};
  return gpu;
}

void SetVerbs(Machine& machine) {
  machine.process.verbs = {.file = "libibverbs.so.1.14.50.0", .at_least = 42, .package = "50.0-2"};
  machine.process.shared_bytes = uint64_t{8} << 30;
}

}  // namespace

FakeTree::FakeTree() {
  std::string name = (fs::path(testing::TempDir()) / "fake_machine.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot create " + name);
  root_ = name;
}

FakeTree::~FakeTree() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
}

void FakeTree::Write(const std::string& path, const std::string& text) const {
  const fs::path file = root_.string() + path;
  fs::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << text;
}

void FakeTree::Link(const std::string& path, const std::string& target) const {
  const fs::path link = root_.string() + path;
  fs::create_directories(link.parent_path());
  fs::create_symlink(root_.string() + target, link);
}

void FakeTree::Remove(const std::string& path) const { fs::remove_all(root_.string() + path); }

void FakeTree::AddModules(const std::vector<std::string>& names) const {
  for (const std::string& name : names) Write("/sys/module/" + name + "/refcnt", "1\n");
}

std::string FakeTree::AddFunction(const std::string& function, const std::string& vendor,
                                  const std::string& device_class) const {
  Write(function + "/vendor", vendor + "\n");
  Write(function + "/class", device_class + "\n");
  Write(function + "/numa_node", "0\n");
  for (const char* const which : {"/current_link", "/max_link"}) {
    Write(function + which + "_speed", "32.0 GT/s PCIe\n");
    Write(function + which + "_width", "16\n");
  }
  Link("/sys/bus/pci/devices/" + function.substr(function.rfind('/') + 1), function);
  return function;
}

void FakeTree::SetAcs(const std::string& function, uint16_t control) const {
  std::string config(4096, '\0');
  const auto put = [&config](size_t at, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) config[at + i] = static_cast<char>(value >> (8 * i));
  };
  put(0x100, 0x14820001);  // Advanced Error Reporting; the next capability is at 0x148
  put(0x148, 0x0001000d);  // ACS, the last capability
  put(0x14c, static_cast<uint32_t>(control) << 16 | 0x005f);
  Write(function + "/config", config);
}

GoodMachine::GoodMachine() {
  tree.AddFunction("/sys/devices/pci0000:3a/0000:3a:01.0", "0x8086", "0x060400");
  tree.AddFunction(kSwitch, "0x1000", "0x060400");
  bridge = tree.AddFunction(std::string(kSwitch) + "/0000:3c:00.0", "0x1000", "0x060400");
  nic_function = tree.AddFunction(bridge + "/0000:3d:00.0", "0x15b3", "0x020000");
  const std::string other = tree.AddFunction(std::string(kSwitch) + "/0000:3c:01.0", "0x1000", "0x060400");
  gpu_function = tree.AddFunction(other + "/0000:41:00.0", "0x10de", "0x030200");
  for (const std::string& each :
       {std::string("/sys/devices/pci0000:3a/0000:3a:01.0"), std::string(kSwitch), bridge, other})
    tree.SetAcs(each, 0);
  tree.AddModules({"mlx5_core", "mlx5_ib", "ib_uverbs", "nvidia", "nvidia_peermem"});
  tree.Write("/proc/driver/nvidia/params", "EnableMSI: 1\nRegistryDwords: \"PeerMappingOverride=1;\"\n");
  tree.Write("/proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000000000\n");
  tree.Write("/proc/self/uid_map", "         0          0 4294967295\n");
  tree.Write("/proc/cmdline", "root=/dev/sda1 quiet\n");
  tree.Write("/sys/class/infiniband_verbs/abi_version", "6\n");
  tree.Write("/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
  tree.Write("/dev/infiniband/uverbs0", "");
  machine.files = tree.files();
  machine.survey.nics = {MakeNic(nic_function)};
  machine.survey.gpus = {MakeGpu(gpu_function)};
  machine.transfer = [](const std::string&, uint8_t) { return "65536 bytes written and verified"; };
  machine.map_doorbell = [](const std::string&, int, bool& mapped) {
    mapped = true;
    return "mapped for cuda:0 as I/O memory";
  };
  machine.register_gpu_memory = [](const std::string&, int) { return "GPU memory by dma-buf"; };
  SetVerbs(machine);
}

PlainMachine::PlainMachine() {
  tree.Write("/proc/self/status", "Name:\tdoctor\nCapEff:\t0000000000000000\n");
  tree.Write("/proc/self/uid_map", "         0          0 4294967295\n");
  tree.Write("/proc/cmdline", "root=/dev/sda1 quiet\n");
  machine.files = tree.files();
  machine.process.locked_bytes = 8 << 20;
  SetVerbs(machine);
}

}  // namespace warpverbs::programs
