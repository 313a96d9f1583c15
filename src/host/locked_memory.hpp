#pragma once

#include <string>

namespace warpverbs::host {

/// What to do when the kernel does not pin memory for the NIC.
///
/// @param error_number  an errno value
std::string PinningRemedy(int error_number);

}  // namespace warpverbs::host
