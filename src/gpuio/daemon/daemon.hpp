#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gpuio/daemon/attached_buffer.hpp"
#include "gpuio/daemon/control_space.hpp"
#include "gpuio/daemon/file_store.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

struct DaemonConfig {
  std::string mount{};        ///< absolute path of the folder that applications name
  std::string socket_path{};  ///< path of the socket for applications; up to 107 bytes
  RegistrationDevice device{};
};

/// What a daemon has done, and has now.
struct DaemonStatistics {
  /// Now. Buffers in parts of one allocation share a registration.
  uint64_t clients = 0, host_buffers = 0, gpu_buffers = 0, rings = 0, files = 0, registrations = 0,
           in_flight = 0;
  uint64_t reads = 0, writes = 0, failures = 0, bytes_read = 0, bytes_written = 0, bytes_zeroed = 0;
  uint64_t refused_clients = 0, broken_rings = 0;

  /// Returns one line of JSON.
  std::string ToJson() const;
};

/// Serves the applications of a node: their rings, buffers and files on one mount.
///
/// Trusts no application: one that sends nonsense loses its connection, a ring that has nonsense is closed,
/// and what an application had goes with its connection. All functions are the loop's thread's.
class Daemon {
 public:
  /// Serves a mount that is an ordinary folder: makes its control folder.
  ///
  /// @param loop   has one thread, and must outlive this, as must `files`
  /// @errors  host::Error: the mount cannot be served
  Daemon(const DaemonConfig& config, transport::EventLoop& loop, FileStore& files);

  /// Serves a mount whose control folder is the caller's.
  ///
  /// @param control  must outlive this
  /// @errors  host::Error: as above
  Daemon(const DaemonConfig& config, transport::EventLoop& loop, FileStore& files, ControlSpace& control);

  /// Stops. I/O under way may still use buffers until the callbacks of `files` have run.
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  DaemonStatistics Statistics() const;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;  // handlers of the loop share it
};

}  // namespace warpverbs::inline v0_2::gpuio
