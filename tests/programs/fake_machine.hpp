#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace warpverbs::programs {

/// A temporary folder with a tree like a machine's /sys, /proc and /dev.
class FakeTree {
 public:
  FakeTree();
  ~FakeTree();
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  /// Writes a file, and creates its folders.
  void Write(const std::string& path, const std::string& text) const;

  /// Creates a symbolic link within the tree.
  void Link(const std::string& path, const std::string& target) const;

  void Remove(const std::string& path) const;

  void AddModules(const std::vector<std::string>& names) const;

  /// Adds a PCI function and its PCIe link.
  ///
  /// @param function  "/sys/devices/pci0000:3a/0000:3a:00.0"
  /// @return  its folder
  std::string AddFunction(const std::string& function, const std::string& vendor,
                          const std::string& device_class) const;

  /// Writes the configuration space of a bridge with ACS.
  void SetAcs(const std::string& function, uint16_t control) const;

  Files files() const { return Files(root_.string()); }

 private:
  std::filesystem::path root_;
};

/// A machine that passes all checks: a ConnectX and a GPU below one PCIe switch, modules, limits. Tests break
/// parts of it.
struct GoodMachine {
  GoodMachine();

  FakeTree tree;
  Machine machine;
  std::string bridge, nic_function, gpu_function;

  NicInfo& nic() { return machine.survey.nics.front(); }
  PortInfo& port() { return nic().ports.front(); }
  GpuInfo& gpu() { return machine.survey.gpus.front(); }
};

/// A machine without RDMA and GPU, as an ordinary user sees it.
struct PlainMachine {
  PlainMachine();

  FakeTree tree;
  Machine machine;
};

}  // namespace warpverbs::programs
