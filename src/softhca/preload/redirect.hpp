#pragma once

#include <climits>

#include "core/identity.hpp"

namespace softhca::preload {

/// A path, redirected into this process's tree if it leads to RDMA devices in /sys or /dev.
///
/// Every open() of the program passes here, so it takes no lock and allocates nothing.
class RedirectedPath {
 public:
  explicit RedirectedPath(const char* path);

  operator const char*() const { return path_; }  // NOLINT(google-explicit-constructor): it is used as a path
  /// Returns the device if the path is its node in /dev.
  const identity::DeviceNode& node() const { return node_; }
  /// Replaces the tree at the start of a resolved path by /sys or /dev if this path was redirected.
  ///
  /// @param resolved  may be null
  char* ShowOriginal(char* resolved) const;

 private:
  const char* path_;
  identity::DeviceNode node_;
  char buffer_[PATH_MAX];  // uninitialised unless redirected
};

}  // namespace softhca::preload
