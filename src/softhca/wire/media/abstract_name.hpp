#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// Takes an abstract Unix name of the network namespace. It is free again when the descriptor is closed, by
/// whatever end.
///
/// @return  none if somebody has it
/// @errors  std::runtime_error: a sentence
Descriptor TakeName(const std::string& name);

/// A name that somebody has taken.
struct TakenName {
  uint64_t holder = 0;  ///< no later one of the same name has this number
  std::string rest;     ///< what follows the prefix
};

/// Looks for a name that begins with `prefix`. May miss one while others come and go.
std::optional<TakenName> FindName(const std::string& prefix);

/// Tells who has a name, as a number that no later holder will have; 0: nobody.
///
/// @return  nothing if that cannot be told now
std::optional<uint64_t> HolderOf(const std::string& name);

}  // namespace softhca
