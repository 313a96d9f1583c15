#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "machine/files.hpp"
#include "machine/process.hpp"
#include "machine/survey.hpp"
#include "machine/transfer.hpp"

namespace warpverbs::programs {

/// Everything that checks read of a machine. Tests replace parts of it.
struct Machine {
  Files files;
  Process process;
  Survey survey;
  DeviceSelection selection{};  ///< settings of transfers
  std::function<std::string(const std::string& nic, uint8_t port)> transfer =
      [](const std::string& nic, uint8_t port) { return TransferOnPort(nic, port); };
  std::function<std::string(const std::string& nic, int gpu, bool& mapped)> map_doorbell = MapDoorbell;
  std::function<std::string(const std::string& nic, int gpu)> register_gpu_memory = RegisterGpuMemory;

  std::function<std::string()> test_with_peer{};  ///< empty: no peer was given

  /// Returns whether softhca replaces the kernel driver and the hardware.
  bool is_software() const {
    return !survey.nics.empty() && std::all_of(survey.nics.begin(), survey.nics.end(),
                                               [](const NicInfo& nic) { return nic.is_software(); });
  }
};

}  // namespace warpverbs::programs
