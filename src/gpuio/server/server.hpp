#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "warpverbs/transport/config.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

class Disk;

/// How a server moves data to and from disks.
enum class IoEngine : uint8_t { kAuto, kUring, kThreads };
enum class IoMode : uint8_t { kAuto, kBuffered };  ///< kAuto: direct I/O where the file system has it

/// The configuration of a FileServer.
struct FileServerConfig {
  std::string folder{};
  std::string address = "0.0.0.0";  ///< address of the interface to listen on, IPv4 or IPv6
  uint16_t port = 0;                ///< 0: any
  bool read_only = false;
  size_t memory = size_t{64} << 20;  ///< bytes for data on its way, for all clients together
  int device = 0;                    ///< device of RdmaTransport
  transport::TransportConfig transport{};
  IoEngine engine = IoEngine::kAuto;
  IoMode mode = IoMode::kAuto;
  size_t max_clients = 256;
  uint32_t max_requests = 128;  ///< largest number of requests of one client under way
  size_t max_files = 4096;      ///< largest number of files that one client has open, if RLIMIT_NOFILE allows
  std::chrono::milliseconds greeting_timeout{10'000};  ///< time from the connection to the greeting
  std::chrono::milliseconds transfer_timeout{30'000};  ///< time to move one piece over the network
  std::function<void(const std::string& line)> log{};  ///< callback on the loop's thread
  std::function<std::unique_ptr<Disk>(std::unique_ptr<Disk>)> wrap_disk{};  ///< replaces the disk, for tests
};

/// Counters of a server since it started.
struct FileServerStatistics {
  uint64_t clients = 0, clients_now = 0;  ///< connections that greeted as a client does
  uint64_t strangers = 0;                 ///< connections that did not, or were refused
  uint64_t requests = 0, errors = 0;
  uint64_t bytes_read = 0, bytes_written = 0, hole_bytes = 0;
  size_t buffers = 0, buffers_used = 0;  ///< now

  /// Returns one line of text.
  std::string ToText() const;
};

/// Serves the files of a folder to any number of clients, whose memory it reads and writes by RDMA.
///
/// A client that leaves, dies or misbehaves loses its connection, with all that it held; the others go on.
/// Connections are neither encrypted nor authenticated: serve hosts that trust each other.
class FileServer {
 public:
  /// Starts to listen.
  ///
  /// @param loop  has one thread, and must outlive this
  /// @errors  host::Error: the folder, the address, the device or the memory is not available
  FileServer(const FileServerConfig& config, transport::EventLoop& loop);

  /// Ends all connections, after disks and threads have ended what they do for them.
  ///
  /// @pre  on the loop's thread, or the loop's thread runs nothing of this object
  ~FileServer();
  FileServer(const FileServer&) = delete;
  FileServer& operator=(const FileServer&) = delete;

  uint16_t port() const;

  /// Says in lines of text what was chosen: address, disks, memory, NICs.
  std::string Describe() const;

  /// @pre  on the loop's thread
  FileServerStatistics Statistics() const;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;
};

}  // namespace warpverbs::inline v0_2::gpuio
