#include "warpverbs/host/error.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "warpverbs/mlx5/commands.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string Hex(uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof(text), "0x%x", value);
  return text;
}

const char* Remedy(mlx5::CommandStatus status) {
  switch (status) {
    case mlx5::CommandStatus::kLimitExceeded:
    case mlx5::CommandStatus::kNoResources:
      return "Use fewer or smaller queues, or close other programs that hold queues of this device";
    case mlx5::CommandStatus::kInternalError:
    case mlx5::CommandStatus::kBadSystemState:
      return "Check the kernel log (dmesg) for mlx5_core, and reset the device if it reports a fatal "
             "error";
    case mlx5::CommandStatus::kBadOperation:
    case mlx5::CommandStatus::kBadParameter:
      return "Update the device's firmware; if it is current, report this with the firmware version and the "
             "syndrome";
    default:
      return "Report this with the firmware version and the syndrome";
  }
}

}  // namespace

Error::Error(std::string step, std::string object, std::string reason, const std::string& remedy,
             int error_number)
    : std::runtime_error("Cannot " + step + " " + object + ": " + reason + ". " + remedy + "."),
      step_(std::move(step)),
      object_(std::move(object)),
      reason_(std::move(reason)),
      remedy_(remedy),
      error_number_(error_number) {}

Error Error::About(const std::string& more) const {
  Error error(step_, object_ + " " + more, reason_, remedy_, error_number_);
  error.syndrome_ = syndrome_;
  return error;
}

std::string Error::DescribeErrno(int error_number) {
  const char* description = strerrordesc_np(error_number);
  const char* name = strerrorname_np(error_number);
  if (!description || !name) return "errno " + std::to_string(error_number);
  return std::string(description) + " (" + name + ")";
}

Error Error::FromErrno(std::string step, std::string object, int error_number, const std::string& remedy) {
  return {std::move(step), std::move(object), DescribeErrno(error_number), remedy, error_number};
}

Error Error::FromCommand(std::string step, std::string object, int error_number, const void* answer) {
  mlx5::Mailbox<mlx5::kCommandOutBytes> out;
  std::memcpy(out.data(), answer, out.size());
  const mlx5::CommandStatus status = out.Get(mlx5::command_out::kStatus);
  if (status == mlx5::CommandStatus::kOk) {
    return FromErrno(
        std::move(step), std::move(object), error_number,
        error_number == ENOMEM
            ? "Free memory, or raise the limits on it (ulimit -v, ulimit -l)"
            : "Check that the kernel's mlx5_ib module offers DEVX and that this user may open the device");
  }
  const uint32_t syndrome = out.Get(mlx5::command_out::kSyndrome);
  Error error(std::move(step), std::move(object),
              "the firmware refused with status " + Hex(static_cast<uint32_t>(status)) + " (" +
                  mlx5::Describe(status) + "), syndrome " + Hex(syndrome),
              Remedy(status), error_number);
  error.syndrome_ = syndrome;
  return error;
}

}  // namespace warpverbs::inline v0_2::host
