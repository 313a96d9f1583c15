#pragma once

#include <cstdint>
#include <string>

namespace soak {

/// Runs the sides of a round that belong to this process, which softhca has started.
///
/// @param folder  of the round; has its board
/// @return  an exit code
int RunWorker(const std::string& folder, uint64_t seed, uint64_t round, uint32_t side);

}  // namespace soak
