#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/fabric.hpp"
#include "doctor/check.hpp"
#include "doctor/meeting.hpp"

namespace warpverbs::programs {

struct DoctorOptions {
  bool json = false;
  std::string device{};              ///< "": all
  Fabric fabric{};                   ///< what transfers take
  std::optional<Meeting> meeting{};  ///< with another machine
  std::vector<Check> checks{};       ///< to run
};

/// Text to print in place of running, and the exit code.
struct Answer {
  std::string text{};
  int exit_code = 0;
};

std::variant<DoctorOptions, Answer> ParseDoctorOptions(int argc, char** argv);

}  // namespace warpverbs::programs
