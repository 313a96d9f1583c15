#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// Network interface of this host.
struct Interface {
  uint32_t index = 0;
  Mac mac{};
  uint32_t mtu = 0;              ///< bytes of an IP packet
  std::vector<Gid> addresses{};  ///< IPv4 before IPv6
};

/// Reads the current state of an interface.
///
/// @errors  std::runtime_error: the interface does not exist, is down or has no address; a sentence
Interface ReadInterface(const std::string& name);

/// Returns the largest MTU whose packets, with all headers, fit the interface.
///
/// @source  Linux v6.1, include/rdma/ib_addr.h, iboe_get_mtu()
mlx5::Mtu FittingMtu(uint32_t interface_mtu);

}  // namespace softhca
