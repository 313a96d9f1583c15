#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// A piece of a program's memory. A null pointer means that there is none.
using Bytes = std::span<uint8_t>;

}  // namespace softhca
