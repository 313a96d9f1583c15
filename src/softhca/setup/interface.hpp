#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/config.hpp"

namespace softhca {

/// A network interface of this host.
struct Interface {
  uint32_t index = 0;
  Mac mac{};
  uint32_t mtu = 0;              ///< of IP packets
  std::vector<Gid> addresses{};  ///< IPv4 before IPv6
};

/// Looks an interface up, as it is now.
///
/// @errors  std::runtime_error: there is none of that name, it is down, or has no address; a sentence
Interface ReadInterface(const std::string& name);

/// The largest MTU whose packets fit an interface, all headers included.
///
/// @source  Linux v6.1, include/rdma/ib_addr.h, iboe_get_mtu()
mlx5::Mtu FittingMtu(uint32_t interface_mtu);

}  // namespace softhca
