#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

/// A failed set-up, as one sentence and a remedy: "Cannot <step> <object>: <reason>. <Remedy>."
///
/// The function that first knows what went wrong throws it; nobody wraps it again.
class WARPVERBS_EXPORT Error : public std::runtime_error {
 public:
  /// @param step    what was tried, as a verb phrase: "register memory"
  /// @param object  on what: "1024 bytes at 0x7f0012340000 on mlx5_0"
  /// @param reason  why it failed; no final full stop
  /// @param remedy  what the user can do, as a sentence without its full stop
  /// @param error_number  an errno value, if the reason is about one
  Error(std::string step, std::string object, std::string reason, const std::string& remedy,
        int error_number = 0);

  /// For a failed system or libibverbs call.
  ///
  /// @param error_number  an errno value
  static Error FromErrno(std::string step, std::string object, int error_number, const std::string& remedy);

  /// For a failed DEVX command: the firmware's status and syndrome where it answered, errno where it did not.
  ///
  /// @param error_number  an errno value; EREMOTEIO says that the firmware refused
  /// @param answer        the command's output mailbox, of at least mlx5::kCommandOutBytes
  static Error FromCommand(std::string step, std::string object, int error_number, const void* answer);

  /// The same failure with more about its object: "Cannot <step> <object> <more>: ...".
  Error About(const std::string& more) const;

  /// Describes an errno value, with its name: "Bad address (EFAULT)".
  static std::string DescribeErrno(int error_number);

  const std::string& step() const { return step_; }
  const std::string& object() const { return object_; }
  const std::string& reason() const { return reason_; }
  const std::string& remedy() const { return remedy_; }  ///< without its full stop
  int error_number() const { return error_number_; }     ///< 0 where no system call failed
  uint32_t syndrome() const { return syndrome_; }        ///< the firmware's; 0 where it refused nothing

 private:
  std::string step_;
  std::string object_;
  std::string reason_;
  std::string remedy_;
  int error_number_ = 0;
  uint32_t syndrome_ = 0;
};

}  // namespace warpverbs::inline v0_2::host
