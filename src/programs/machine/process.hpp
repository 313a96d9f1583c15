#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "machine/files.hpp"

namespace warpverbs::programs {

inline constexpr uint64_t kUnlimited = std::numeric_limits<uint64_t>::max();

/// The rdma-core that this process has loaded.
struct VerbsLibrary {
  std::string file{};     ///< "libibverbs.so.1.14.44.0"; "": not known
  int at_least = 0;       ///< a version of rdma-core that it is not older than, by the symbols that it has
  std::string package{};  ///< "44.0-2" as the package manager tells it; "": it does not
};

/// What this process may do.
struct Process {
  uint64_t locked_bytes = kUnlimited;      ///< RLIMIT_MEMLOCK, the soft limit
  bool root = false;                       ///< its effective user is root
  std::optional<uint64_t> shared_bytes{};  ///< the size of /dev/shm; empty: there is none
  VerbsLibrary verbs{};
};

/// Looks at this process.
Process LookAtProcess(const Files& files);

}  // namespace warpverbs::programs
