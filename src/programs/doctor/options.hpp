#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/command_line.hpp"
#include "doctor/check.hpp"
#include "doctor/peer_test.hpp"

namespace warpverbs::programs {

/// The settings of warpverbs-doctor.
struct DoctorOptions {
  bool json = false;
  std::string device{};               ///< the only NIC to check; "": all
  DeviceSelection selection{};        ///< settings of transfers
  std::optional<PeerOptions> peer{};  ///< the other machine
  std::vector<Check> checks{};        ///< checks to run
};

std::variant<DoctorOptions, EarlyExit> ParseDoctorOptions(int argc, char** argv);

}  // namespace warpverbs::programs
