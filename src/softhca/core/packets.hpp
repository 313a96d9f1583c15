#pragma once

#include <algorithm>
#include <cstdint>

#include "core/config.hpp"
#include "core/link.hpp"

namespace softhca {

inline constexpr uint32_t kPsnMask = 0xffffff;

/// How many packet sequence numbers a request takes: one a packet of payload, whichever way the payload goes.
inline uint32_t PsnCount(const Request& request, mlx5::Mtu mtu) {
  const uint64_t bytes = MtuBytes(mtu);
  return static_cast<uint32_t>(std::max<uint64_t>(1, (request.bytes + bytes - 1) / bytes));
}

}  // namespace softhca
