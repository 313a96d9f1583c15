#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// Returns a name that only this user's programs take: "softhca/UID/" and the rest. The kernel does not
/// forbid it to others.
std::string OwnName(const std::string& rest);

/// Takes an abstract Unix socket name in the network namespace. The name is free again when the descriptor is
/// closed, also by the process's death.
///
/// @return  none if the name is taken
/// @errors  std::runtime_error
Descriptor TakeName(const std::string& name);

/// A name that a process has taken.
struct TakenName {
  uint64_t holder = 0;  ///< socket number; no later holder of the name has the same
  std::string rest;     ///< part of the name after the prefix
};

/// Lists the names that begin with `prefix`. May miss one while others are taken and freed.
std::vector<TakenName> ListNames(const std::string& prefix);

/// Finds a name that begins with `prefix`. May miss one while others are taken and freed.
std::optional<TakenName> FindName(const std::string& prefix);

/// Returns whether a name is certainly free, also while others are taken and freed.
bool IsFree(const std::string& name);

}  // namespace softhca
