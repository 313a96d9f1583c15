#pragma once

#include <algorithm>
#include <functional>
#include <string>

#include "machine/files.hpp"
#include "machine/process.hpp"
#include "machine/survey.hpp"
#include "machine/transfer.hpp"

namespace warpverbs::programs {

/// All that the checks know of a machine. Tests put another one in its place, part by part.
struct Machine {
  Files files;
  Process process;
  Survey survey;
  Fabric fabric{};  ///< what transfers take
  std::function<std::string(const std::string& nic, uint8_t port)> transfer =
      [](const std::string& nic, uint8_t port) { return TransferOnPort(nic, port); };
  std::function<std::string(const std::string& nic, int gpu, bool& mapped)> map_doorbell = MapDoorbell;
  std::function<std::string(const std::string& nic, int gpu)> register_gpu_memory = RegisterGpuMemory;

  std::function<std::string()> meet_peer{};  ///< none: no peer is named

  /// Whether softhca stands in for the kernel and the hardware.
  bool is_software() const {
    return !survey.nics.empty() && std::all_of(survey.nics.begin(), survey.nics.end(),
                                               [](const Nic& nic) { return nic.is_software(); });
  }
};

}  // namespace warpverbs::programs
