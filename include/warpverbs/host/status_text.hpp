#pragma once

#include <cstdint>
#include <string>

#include "warpverbs/device/status.hpp"

namespace warpverbs::host {

/// Says in words what a call of the data path answered: "timeout: the deadline passed".
std::string Describe(const device::Status& status);

/// Names the operation of a WQE: "RDMA write". Never null.
///
/// @param opcode  mlx5::WqeOpcode
const char* OperationName(uint8_t opcode);

/// "(syndrome 0x13, vendor syndrome 0x88)"
std::string SyndromeText(uint8_t syndrome, uint8_t vendor_syndrome);

}  // namespace warpverbs::host
