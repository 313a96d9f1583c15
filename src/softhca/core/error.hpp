#pragma once

#include <stdexcept>
#include <string>

#include "warpverbs/mlx5/commands.hpp"

namespace softhca {

/// Reports a command that the HCA refuses: the firmware status for DEVX callers, a sentence for the log.
class CommandError : public std::runtime_error {
 public:
  CommandError(warpverbs::mlx5::CommandStatus status, const std::string& why)
      : std::runtime_error(why), status_(status) {}

  warpverbs::mlx5::CommandStatus status() const { return status_; }

 private:
  warpverbs::mlx5::CommandStatus status_;
};

}  // namespace softhca
