#pragma once

#include <string>

#include "machine/files.hpp"

namespace warpverbs::programs {

/// Whether the kernel has a module, loaded or built in.
bool HasModule(const Files& files, const std::string& name);

/// Whether a capability is in force for this process in the whole machine, not just in a user namespace.
///
/// @param number  as in linux/capability.h: 14 is CAP_IPC_LOCK
bool HasCapability(const Files& files, unsigned number);

/// Whether this process seems to live in a container.
bool InContainer(const Files& files);

}  // namespace warpverbs::programs
