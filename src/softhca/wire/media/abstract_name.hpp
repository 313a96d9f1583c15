#pragma once

#include <string>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// Takes an abstract Unix name of the network namespace. It is free again when the descriptor is closed, by
/// whatever end.
///
/// @return  none if somebody has it
/// @errors  std::runtime_error: a sentence
Descriptor TakeName(const std::string& name);

}  // namespace softhca
