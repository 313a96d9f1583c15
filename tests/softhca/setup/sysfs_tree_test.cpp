#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "setup/settings.hpp"

namespace softhca {
namespace {

namespace fs = std::filesystem;

/// A tree of a device whose first port is on an interface, and whose second is on none, as with a cable.
class SysfsTree : public testing::Test {
 protected:
  SysfsTree() {
    std::string name = fs::temp_directory_path() / "softhca-tree-XXXXXX";
    root = mkdtemp(name.data());
    const GidEntry gid{Gid{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 5}, mlx5::RoceVersion::kV2};
    PortConfig on_interface, on_none;
    on_interface.gids = on_none.gids = {gid};
    on_interface.interface = "eth0";
    devices = {{.name = "mlx5_0", .guid = 1, .ports = {on_interface, on_none}}};
    BuildSysfsTree(root, devices);
  }
  ~SysfsTree() override { fs::remove_all(root); }

  fs::path Port(int port) const { return root / "class/infiniband/mlx5_0/ports" / std::to_string(port); }

  fs::path root;
  std::vector<DeviceConfig> devices;
};

TEST_F(SysfsTree, NamesTheInterfaceOfEachGid) {
  std::string name;
  std::ifstream(Port(1) / "gid_attrs/ndevs/0") >> name;
  EXPECT_EQ(name, "eth0");
  EXPECT_FALSE(fs::exists(Port(2) / "gid_attrs/ndevs/0")) << "a cable has no interface";
}

TEST_F(SysfsTree, LinksTheInterfacesOfTheFunction) {
  const fs::path net = root / "class/infiniband/mlx5_0/device/net";
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(net)) {
    EXPECT_EQ(fs::read_symlink(entry), "/sys/class/net/eth0") << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 1);
}

TEST_F(SysfsTree, LinksAnInterfaceOfTwoPortsOnce) {
  for (PortConfig& port : devices[0].ports) port.interface = "lo";
  BuildSysfsTree(root / "loopback", devices);
  EXPECT_EQ(fs::read_symlink(root / "loopback/class/infiniband/mlx5_0/device/net/lo"), "/sys/class/net/lo");
}

TEST_F(SysfsTree, ShowsThePeerMemoryModuleBesideTheDriverOfAGpu) {
  const fs::path modules = root / "host", shown = "module/nvidia_peermem/version";
  fs::create_directories(modules / "nvidia");
  BuildSysfsTree(root / "without", devices, modules);
  EXPECT_FALSE(fs::exists(root / "without" / shown));
  std::ofstream(modules / "nvidia/version") << "580.159.04\n";
  BuildSysfsTree(root / "with", devices, modules);
  std::string version;
  std::ifstream(root / "with" / shown) >> version;
  EXPECT_EQ(version, "580.159.04");
}

}  // namespace
}  // namespace softhca
