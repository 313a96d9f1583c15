#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "gpuio/files/file_client.hpp"
#include "gpuio/mount/control_links.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

struct MountConfig {
  std::string folder{};      ///< folder to mount on
  bool allow_other = false;  ///< whether all users of the machine may use it, as the files' rights say
  size_t buffers = 16;       ///< number of registered buffers of 1 MiB, one for each read or write under way
  int device = 0;            ///< device of FileClientConfig
  uint32_t max_nics = 1;     ///< setting of FileClientConfig's transport
  std::function<void()> on_unmounted{};  ///< callback on the loop's thread for an unmount by somebody else
};

/// Files of a server as a file system of this machine, by FUSE.
///
/// Reads and writes of programs go to the server by RDMA, past the kernel's page cache: a program sees
/// at once what a ring has written, and the other way. Shared mappings of files are therefore refused.
///
/// The loop's thread serves the kernel. It must not use a path of the mount itself: it would wait for itself.
class Mount {
 public:
  /// Mounts the root of the server's folder.
  ///
  /// @param files    outlives this
  /// @param control  outlives this; nullptr: there is no control folder
  /// @pre     on the loop's thread, which is that of `files`
  /// @errors  host::Error: the folder cannot be mounted on, or memory cannot be registered
  Mount(const MountConfig& config, transport::EventLoop& loop, FileClient& files, ControlLinks* control);

  /// Unmounts. Files that programs still have open fail from then on.
  ///
  /// @pre  on the loop's thread
  ~Mount();
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;  // callbacks of the client share it
};

}  // namespace warpverbs::inline v0_2::gpuio
