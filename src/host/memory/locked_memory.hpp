#pragma once

#include <string>

namespace warpverbs::inline v0_2::host {

/// Describes why the kernel does not pin memory for the NIC, with the current limit.
///
/// @param error_number  an errno value
std::string PinningReason(int error_number);

/// Returns whether the call might succeed with fewer registrations: memory, locked memory, keys or other
/// device resources have run out. mlx5_core reports missing resources as EAGAIN.
/// has no resources, which mlx5_core tells by EAGAIN, or no key.
///
/// @source  Linux v6.12, drivers/net/ethernet/mellanox/mlx5/core/cmd.c, cmd_status_to_err()
bool IsOutOfResources(int error_number);

/// Returns the remedy for the error.
std::string PinningRemedy(int error_number);

}  // namespace warpverbs::inline v0_2::host
