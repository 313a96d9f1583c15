#pragma once

#include <string>
#include <string_view>

#include "warpverbs/host/device.hpp"

namespace warpverbs::programs {

/// "MT_0000000838", as the kernel names the board of a device; "": it does not.
std::string BoardOf(const host::Device& device);

/// Whether a board is softhca: then its figures are those of processors, not of a network.
inline bool IsSoftwareBoard(std::string_view board) { return board.starts_with("SOFTHCA"); }

}  // namespace warpverbs::programs
