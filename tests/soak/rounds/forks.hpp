#pragma once

#include <cstdint>
#include <functional>

#include "soak/rounds/context.hpp"

namespace soak {

/// Forks, and waits for the child.
///
/// @param choice   of what the child does: it ends at once, becomes another program, destroys its copies
///                 of the parent's objects, or opens a device of its own
/// @param destroy  destroys the child's copies
void ForkAndWait(const Context& context, uint64_t choice, const std::function<void()>& destroy);

}  // namespace soak
