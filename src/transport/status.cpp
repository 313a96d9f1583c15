#include "warpverbs/transport/status.hpp"

namespace warpverbs::inline v0_2::transport {

const char* ToString(Code code) {
  switch (code) {
    case Code::kSuccess:
      return "success";
    case Code::kTimeout:
      return "timeout";
    case Code::kInternalError:
      return "internal error";
    case Code::kAborted:
      return "aborted";
    case Code::kInvalid:
      return "invalid call";
    case Code::kAccessDenied:
      return "access denied";
  }
  return "unknown";
}

std::string Status::Describe() const {
  return reason_ ? std::string(ToString(code_)) + ": " + *reason_ : ToString(code_);
}

}  // namespace warpverbs::inline v0_2::transport
