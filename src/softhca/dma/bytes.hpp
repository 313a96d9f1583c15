#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace softhca {

/// A piece of a program's memory; a null pointer means none.
using Bytes = std::span<uint8_t>;

}  // namespace softhca
