#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace warpverbs::transport {

/// How an operation of a transport ended.
enum class Code : uint8_t {
  kSuccess,
  kTimeout,        ///< its time was up; the NIC may still use its memory: see RdmaTransport
  kInternalError,  ///< broken for good, as GetStatus() says; or Bind(), Connect() lacked memory or files
  kAborted,        ///< the transport was destroyed
  kInvalid,        ///< the call makes no sense: nothing was sent, and the transport is as it was
};

const char* ToString(Code code);

/// A code and, unless all went well, why in a sentence. Copies share the sentence and allocate nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string why)
      : code_(code), why_(std::make_shared<const std::string>(std::move(why))) {}

  Code code() const { return code_; }
  bool ok() const { return code_ == Code::kSuccess; }

  /// The sentence, behind the name of the code: "timeout: ...". "success" if all went well.
  std::string What() const;

  friend bool operator==(const Status& status, Code code) { return status.code_ == code; }

 private:
  Code code_ = Code::kSuccess;
  std::shared_ptr<const std::string> why_;
};

}  // namespace warpverbs::transport
