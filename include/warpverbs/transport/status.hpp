#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::transport {

/// How an operation of a transport ended.
enum class Code : uint8_t {
  kSuccess,
  kTimeout,        ///< the timeout passed; the NIC may still use the memory: see RdmaTransport
  kInternalError,  ///< the transport is broken (see GetStatus()), or Bind() or Connect() lacked memory or
                   ///< files
  kAborted,        ///< the transport was destroyed or reset
  kInvalid,        ///< the call is invalid: nothing was sent, and the transport is unchanged
  kAccessDenied,   ///< the peer's NIC refused a key or a range, and the transport is broken; the operation
                   ///< that is to blame completes first, and all others with the same code after it
};

WARPVERBS_EXPORT const char* ToString(Code code);

/// A code and, for a failure, the reason in a sentence. Copies share the sentence and do not allocate.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string reason)
      : code_(code), reason_(std::make_shared<const std::string>(std::move(reason))) {}

  Code code() const { return code_; }
  bool ok() const { return code_ == Code::kSuccess; }

  /// Returns the name of the code and the reason: "timeout: ...", or "success".
  WARPVERBS_EXPORT std::string Describe() const;

  friend bool operator==(const Status& status, Code code) { return status.code_ == code; }

 private:
  Code code_ = Code::kSuccess;
  std::shared_ptr<const std::string> reason_;
};

}  // namespace warpverbs::inline v0_2::transport
