#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "machine/machine.hpp"

namespace warpverbs::programs {

/// A folder with a tree like that of a machine's /sys, /proc and /dev. Removed at the end.
class FakeTree {
 public:
  FakeTree();
  ~FakeTree();
  FakeTree(const FakeTree&) = delete;
  FakeTree& operator=(const FakeTree&) = delete;

  /// Writes a file, with the folders above it.
  void Write(const std::string& path, const std::string& text) const;

  /// Links a path to another of this tree.
  void Link(const std::string& path, const std::string& target) const;

  void Remove(const std::string& path) const;

  void AddModules(const std::vector<std::string>& names) const;

  /// Adds a PCI function with its link.
  ///
  /// @param function  "/sys/devices/pci0000:3a/0000:3a:00.0"
  /// @return  its path
  std::string AddFunction(const std::string& function, const std::string& vendor,
                          const std::string& device_class) const;

  /// Gives a bridge a configuration space with ACS.
  void SetAcs(const std::string& function, uint16_t control) const;

  Files files() const { return Files(root_.string()); }

 private:
  std::filesystem::path root_;
};

/// A server as it should be: a ConnectX and a GPU below one PCIe switch, modules, limits, everything. Tests
/// break one thing of it.
struct GoodMachine {
  GoodMachine();

  FakeTree tree;
  Machine machine;
  std::string bridge, nic_function, gpu_function;

  Nic& nic() { return machine.survey.nics.front(); }
  NicPort& port() { return nic().ports.front(); }
  GpuSeen& gpu() { return machine.survey.gpus.front(); }
};

/// A machine without RDMA, without a GPU, of an ordinary user.
struct PlainMachine {
  PlainMachine();

  FakeTree tree;
  Machine machine;
};

}  // namespace warpverbs::programs
