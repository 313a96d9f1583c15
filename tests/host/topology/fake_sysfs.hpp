#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace warpverbs::inline v0_2::host {

/// A folder with the layout of /sys, with the PCI functions and RDMA devices that a test adds.
class FakeSysfs {
 public:
  FakeSysfs() {
    std::string pattern = testing::TempDir() + "sysfs.XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  FakeSysfs(const FakeSysfs&) = delete;
  FakeSysfs& operator=(const FakeSysfs&) = delete;
  ~FakeSysfs() { std::filesystem::remove_all(root_); }

  const std::filesystem::path& root() const { return root_; }

  /// @param path  path below /sys/devices with all bridges: "pci0000:40/0000:40:01.1/0000:41:00.0"
  void AddFunction(const std::string& path, const std::string& vendor, const std::string& class_code,
                   int numa_node) {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path("devices") / path;
    Write(folder / "vendor", vendor);
    Write(folder / "class", class_code);
    Write(folder / "numa_node", std::to_string(numa_node));
    fs::create_directories(root_ / "bus/pci/devices");
    fs::create_symlink("../../.." / folder, root_ / "bus/pci/devices" / folder.filename());
  }

  void AddGpu(const std::string& path, int numa_node = 0) {
    AddFunction(path, "0x10de", "0x030200", numa_node);
  }

  void AddNic(const std::string& path, const std::string& name, int numa_node = 0,
              const std::string& rate = "400 Gb/sec (4X NDR)") {
    namespace fs = std::filesystem;
    AddFunction(path, "0x15b3", "0x020700", numa_node);
    fs::create_symlink("/sys/bus/pci/drivers/mlx5_core", root_ / "devices" / path / "driver");
    AddRdmaDevice(path, name);
    Write(fs::path("devices") / path / "infiniband" / name / "hca_type", "MT4129");
    AddPort(path, name, 1, "4: ACTIVE", rate);
  }

  /// Adds an RDMA device of any kind at any place, without ports.
  void AddRdmaDevice(const std::string& path, const std::string& name) {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path("devices") / path / "infiniband" / name;
    fs::create_directories(root_ / folder);
    fs::create_symlink("../..", root_ / folder / "device");
    fs::create_directories(root_ / "class/infiniband");
    fs::create_symlink("../.." / folder, root_ / "class/infiniband" / name);
  }

  void AddPort(const std::string& path, const std::string& name, int number, const std::string& state,
               const std::string& rate, const std::string& link_layer = "InfiniBand") {
    const auto folder =
        std::filesystem::path("devices") / path / "infiniband" / name / "ports" / std::to_string(number);
    Write(folder / "state", state);
    Write(folder / "rate", rate);
    Write(folder / "link_layer", link_layer);
  }

  void Write(const std::filesystem::path& file, const std::string& line) {
    std::filesystem::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << line << "\n";
  }

 private:
  std::filesystem::path root_;
};

}  // namespace warpverbs::inline v0_2::host
