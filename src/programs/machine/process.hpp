#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "machine/files.hpp"

namespace warpverbs::programs {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// The version of rdma-core that this process has loaded.
struct VerbsLibrary {
  std::string file{};     ///< "libibverbs.so.1.14.44.0"; "": unknown
  int at_least = 0;       ///< minimum version of rdma-core, from the exported symbols
  std::string package{};  ///< "44.0-2", from the package manager; "": unknown
};

/// Limits and privileges of this process.
struct Process {
  uint64_t locked_bytes = kUnlimited;      ///< RLIMIT_MEMLOCK, the soft limit
  bool root = false;                       ///< whether its effective user is root
  std::optional<uint64_t> shared_bytes{};  ///< size of /dev/shm; empty if it does not exist
  VerbsLibrary verbs{};
};

/// Inspects this process.
Process InspectProcess(const Files& files);

/// Returns whether the kernel has a module, loaded or built in.
bool HasModule(const Files& files, const std::string& name);

/// Returns whether this process has a capability in the initial user namespace.
///
/// @param number  as in linux/capability.h: 14 is CAP_IPC_LOCK
bool HasCapability(const Files& files, unsigned number);

/// Returns whether this process seems to run in a container.
bool InContainer(const Files& files);

}  // namespace warpverbs::programs
