#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A process that changes the control folder of a mount.
struct ControlCaller {
  uid_t user = 0;
  gid_t group = 0;
  pid_t process = 0;
};

/// The contents of the control folder of a mount. The daemon fills it in.
///
/// The mount shows `3fs-virt/daemon`, a symlink to the daemon's socket, and `3fs-virt/iovs/`, whose symlinks
/// are these. Calls are on the mount's loop, and must neither block nor use a path of the mount.
class ControlLinks {
 public:
  virtual ~ControlLinks() = default;

  /// Returns the path of the daemon's socket; "": there is none.
  virtual std::string Socket() const = 0;

  /// Returns the names of all links.
  virtual std::vector<std::string> List() const = 0;

  /// Returns what a link names; empty: there is no link of that name.
  virtual std::optional<std::string> Target(const std::string& name) const = 0;

  /// Takes a link that a process makes.
  ///
  /// @return  0 or an errno value
  virtual int Add(const std::string& name, const std::string& target, const ControlCaller& caller) = 0;

  /// Takes the removal of a link.
  ///
  /// @return  0 or an errno value
  virtual int Remove(const std::string& name, const ControlCaller& caller) = 0;
};

}  // namespace warpverbs::inline v0_2::gpuio
