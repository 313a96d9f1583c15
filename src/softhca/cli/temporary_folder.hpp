#pragma once

#include <string>

#include "wire/media/descriptor.hpp"

namespace softhca {

/// A folder for the devices' files, which is removed with its owner. A shared lock on it shows that somebody
/// uses it; so do the settings in the environment of the processes that were launched.
///
/// The first thing that a new one does is to remove the folders that killed launchers of this user have left
/// beside it.
class TemporaryFolder {
 public:
  /// @errors  std::system_error: the folder cannot be created
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  /// Returns the path, without symbolic links.
  const std::string& path() const { return path_; }

 private:
  bool Create();

  std::string path_;
  Descriptor lock_;
};

}  // namespace softhca
