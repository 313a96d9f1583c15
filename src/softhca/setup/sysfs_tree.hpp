#pragma once

#include <filesystem>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// Writes the files that a kernel with these devices shows below /sys, and their nodes in /dev, to a folder.
///
/// The devices lie where their PCI functions are, with symbolic links in class/, so that programs which
/// follow `device`, or look for the PCI address, the NUMA node or the network interface, find it.
///
/// @errors  std::filesystem::filesystem_error
void BuildSysfsTree(const std::filesystem::path& root, const std::vector<DeviceConfig>& devices);

}  // namespace softhca
