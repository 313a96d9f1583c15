#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "nic.hpp"
#include "softhca_control.h"
#include "warpverbs/host/device.hpp"
#include "warpverbs/host/endpoint.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Failures on demand through the functions that softhca exports. On a ConnectX, tests that need them are
/// skipped.
namespace warpverbs::e2e {

/// Ends the calling test from any depth, and reports it as skipped.
[[noreturn]] inline void SkipTest(const std::string& why) {
  [&] { GTEST_SKIP() << why; }();
  throw testing::AssertionException({testing::TestPartResult::kSkip, __FILE__, __LINE__, why.c_str()});
}

template <class Function>
Function* FindInSofthca(const char* name) {
  auto* const function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
  if (function == nullptr && !NamedNic().empty()) SkipTest(std::string("needs softhca for ") + name);
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not exported");
  return function;
}

/// Makes the WQE of this index fail.
inline void Force(const host::Device& device, const host::Endpoint& endpoint, uint32_t index,
                  mlx5::Syndrome syndrome, uint8_t vendor_syndrome = 0) {
  auto* const force = FindInSofthca<decltype(softhca_force_syndrome)>("softhca_force_syndrome");
  const auto code = static_cast<uint8_t>(syndrome);
  if (force(device.name().c_str(), endpoint.qpn(), index & 0xffff, code, vendor_syndrome) != 0) {
    throw std::runtime_error("softhca does not force a failure of QP " + std::to_string(endpoint.qpn()));
  }
}

/// Stalls the send queue of an endpoint until Release() or destruction.
class Hold {
 public:
  Hold(const host::Device& device, const host::Endpoint& endpoint)
      : name_(device.name()), qpn_(endpoint.qpn()) {
    Set(1);
  }
  ~Hold() {
    if (held_) hold_(name_.c_str(), qpn_, 0);
  }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  void Release() { Set(0); }

 private:
  void Set(int hold) {
    if (hold_(name_.c_str(), qpn_, hold) != 0) {
      throw std::runtime_error("softhca does not hold QP " + std::to_string(qpn_));
    }
    held_ = hold != 0;
  }

  decltype(&softhca_hold) hold_ = FindInSofthca<decltype(softhca_hold)>("softhca_hold");
  std::string name_;
  uint32_t qpn_;
  bool held_ = false;
};

}  // namespace warpverbs::e2e
