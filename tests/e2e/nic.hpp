#pragma once

#include <cstdlib>
#include <memory>
#include <string>

#include "warpverbs/host/device.hpp"

namespace warpverbs::e2e {

/// Returns the ConnectX to test, from WARPVERBS_TEST_NIC; empty under softhca.
inline std::string NamedNic() {
  const char* const name = std::getenv("WARPVERBS_TEST_NIC");
  return name == nullptr ? "" : name;
}

inline std::shared_ptr<host::Device> OpenNic() {
  const std::string name = NamedNic();
  return std::make_shared<host::Device>(name.empty() ? host::FirstActiveDevice() : name);
}

}  // namespace warpverbs::e2e
