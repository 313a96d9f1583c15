#pragma once

#include <string>

namespace warpverbs::host {

/// Why the kernel does not pin memory for the NIC, with the limit on it as it is now.
///
/// @param error_number  an errno value
std::string PinningReason(int error_number);

/// What to do about it.
std::string PinningRemedy(int error_number);

}  // namespace warpverbs::host
