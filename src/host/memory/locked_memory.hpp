#pragma once

#include <string>

namespace warpverbs::host {

/// Why the kernel does not pin memory for the NIC, with the limit on it as it is now.
///
/// @param error_number  an errno value
std::string PinningReason(int error_number);

/// Whether less that is registered might let it succeed: no memory or no locked memory is left, or the device
/// has no resources, which mlx5_core tells by EAGAIN, or no key.
///
/// @source  Linux v6.12, drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_to_err()
bool IsForLackOfRoom(int error_number);

/// What to do about it.
std::string PinningRemedy(int error_number);

}  // namespace warpverbs::host
