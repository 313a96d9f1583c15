#pragma once

#include <climits>

#include "core/identity.hpp"

namespace softhca::uverbs {

/// A path, or what stands in for it in the launcher's tree if it leads to where HCAs are found.
///
/// Stands before every file that the program opens: it takes no lock and allocates nothing.
class RedirectedPath {
 public:
  explicit RedirectedPath(const char* path);

  operator const char*() const { return path_; }  // NOLINT(google-explicit-constructor): it is a path
  /// The device whose node in /dev this is.
  const identity::DeviceNode& node() const { return node_; }
  /// Makes of a path in the tree, if that is where this one leads, the one that it stands in for.
  ///
  /// @param resolved  may be null
  char* ShowOriginal(char* resolved) const;

 private:
  const char* path_;
  identity::DeviceNode node_;
  char buffer_[PATH_MAX];  // left uninitialised for all other paths
};

}  // namespace softhca::uverbs
