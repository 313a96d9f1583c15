#pragma once

#include <array>
#include <functional>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The control folder of a mount, as the daemon uses it. All calls are on the daemon's loop.
class ControlSpace {
 public:
  /// The priorities that a ring may have, highest first. Each has a semaphore of submissions.
  static constexpr std::array kPriorities{-1, 0, 1};

  virtual ~ControlSpace() = default;

  /// Shows the daemon to applications.
  ///
  /// @param socket      path of its socket
  /// @param submit      paths of the semaphores' memory, in the order of kPriorities
  /// @param on_removed  called with the name of each link that an application removes, until Close()
  /// @errors  host::Error
  virtual void Open(const std::string& socket, const std::array<std::string, kPriorities.size()>& submit,
                    std::function<void(const std::string&)> on_removed) = 0;

  /// Takes all of that back.
  virtual void Close() = 0;

  /// Reads the link of a buffer or ring.
  ///
  /// @return  0 or an errno value
  virtual int ReadLink(const std::string& name, std::string& target) const = 0;

  /// Removes the link of a buffer or ring, if it has this target.
  virtual void Unlink(const std::string& name, const std::string& target) = 0;
};

}  // namespace warpverbs::inline v0_2::gpuio
