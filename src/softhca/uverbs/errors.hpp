#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>

#include "core/error.hpp"

namespace softhca::uverbs {

/// The failure of a command with an errno. The sentence is for --log.
class Errno : public std::runtime_error {
 public:
  Errno(int value, const std::string& why) : std::runtime_error(why), value_(value) {}

  int value() const { return value_; }

 private:
  int value_;
};

/// Converts a firmware status to an errno as a kernel does.
///
/// @source  Linux v6.1, drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_to_err()
constexpr int ToErrno(warpverbs::mlx5::CommandStatus status) {
  using warpverbs::mlx5::CommandStatus;
  switch (status) {
    case CommandStatus::kOk:
      return 0;
    case CommandStatus::kResourceBusy:
      return EBUSY;
    case CommandStatus::kLimitExceeded:
      return ENOMEM;
    case CommandStatus::kNoResources:
      return EAGAIN;
    case CommandStatus::kInternalError:
    case CommandStatus::kBadSystemState:
    case CommandStatus::kBadInputLength:
    case CommandStatus::kBadOutputLength:
      return EIO;
    default:
      return EINVAL;
  }
}

}  // namespace softhca::uverbs
