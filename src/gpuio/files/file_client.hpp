#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpuio/protocol/file_types.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/transport/rdma_transport.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The address of a file server.
struct ServerAddress {
  std::string host{};
  uint16_t port = 0;

  friend bool operator==(const ServerAddress&, const ServerAddress&) = default;
};

/// The configuration of a FileClient.
struct FileClientConfig {
  std::vector<ServerAddress> servers{};             ///< at least one; the first that answers is used
  int device = 0;                                   ///< device of RdmaTransport
  std::chrono::milliseconds timeout{30000};         ///< time of one request, with all its attempts
  std::chrono::milliseconds connect_timeout{5000};  ///< time of one attempt to connect to one server
  transport::TransportConfig transport{};           ///< max_nics also for RdmaMemory of the caller
  std::function<void(const std::string& line)>
      log{};  ///< callback on the loop's thread for lines about connections
};

struct OpenedFile {
  uint64_t file = 0;  ///< valid until Close(), also over reconnections; never 0
  Attributes attributes{};
};

/// Files of a server, whose contents move by RDMA between the server and registered memory.
///
/// Connects in the background, and to the next server whenever a connection ends. Opened files are then
/// opened again by their paths. A request under way is repeated once if that does no harm (reads, writes,
/// questions), and else ends with EREMOTEIO. A request also ends with EREMOTEIO when its timeout passes.
/// Until a request has ended, the server may use its buffer; once it has ended, never.
///
/// All paths are relative to the root of the export, "" being the root. Errors are errno values. Callbacks
/// run on the loop's thread, never within the call, and exactly once. Thread-safe: calls of other threads are
/// posted to the loop.
class FileClient {
 public:
  using Done = std::function<void(int error)>;

  /// @param loop  has one thread, and must outlive this
  /// @errors  host::Error: there is no server in `config`, or the device does not exist
  FileClient(const FileClientConfig& config, transport::EventLoop& loop);

  /// Ends pending requests with ECANCELED; their callbacks may run after it has returned. The server uses no
  /// buffer of theirs once it has returned.
  ///
  /// @pre  on the loop's thread, or the loop's thread runs nothing of this object
  ~FileClient();
  FileClient(const FileClient&) = delete;
  FileClient& operator=(const FileClient&) = delete;

  /// Opens or creates a file.
  ///
  /// @param flags  of open(2): the access mode, O_CREAT, O_EXCL, O_TRUNC, O_DIRECTORY, O_NOFOLLOW; others are
  ///               refused with EINVAL
  void Open(std::string path, int flags, mode_t mode, std::function<void(int error, OpenedFile)> done);

  /// Closes a file. Its pending requests end as usual.
  void Close(uint64_t file);

  /// Reads a part of a file into a buffer.
  ///
  /// The server writes what the file has there, except holes. Reads end at the end of the file, and nothing
  /// behind it is written.
  ///
  /// @param target  memory of this process, registered with remote write access; `len` is what to read
  void Read(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& target,
            std::function<void(ReadResult)> done, Holes holes = Holes::kList);

  /// Writes a buffer to a part of a file.
  ///
  /// @param source  memory of this process, registered with remote read access; `len` is what to write
  /// @param done    gets the bytes written, fewer than `len` only where the device is full, or -errno
  void Write(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& source,
             std::function<void(int64_t)> done);

  /// Writes to the disk what was written to the file.
  ///
  /// @errors  EREMOTEIO: some of it was written over an earlier connection, whose server may have lost it
  void Sync(uint64_t file, bool data_only, Done done);

  /// Gives back the space of a part of a file, which then reads as zeros.
  void PunchHole(uint64_t file, uint64_t offset, uint64_t bytes, Done done);

  void GetAttributes(uint64_t file, std::function<void(int error, Attributes)> done);
  void ChangeAttributes(uint64_t file, const AttributeChanges& changes,
                        std::function<void(int error, Attributes)> done);

  /// Of a path, without following a symlink at its end.
  void GetAttributes(std::string path, std::function<void(int error, Attributes)> done);
  void ChangeAttributes(std::string path, const AttributeChanges& changes,
                        std::function<void(int error, Attributes)> done);

  /// Lists a folder, without "." and "..".
  void List(std::string path, std::function<void(int error, std::vector<DirectoryEntry>)> done);

  void MakeDirectory(std::string path, mode_t mode, Done done);
  void RemoveDirectory(std::string path, Done done);
  void Unlink(std::string path, Done done);

  /// @param flags  of renameat2(2)
  void Rename(std::string from, std::string to, unsigned flags, Done done);
  void HardLink(std::string from, std::string to, Done done);

  /// Returns what a symlink names.
  void ReadLink(std::string path, std::function<void(int error, std::string target)> done);
  void GetSpace(std::function<void(int error, Space)> done);

  /// Returns the present path of an open file: renames by this client are followed. Empty: it is not open.
  ///
  /// @pre  on the loop's thread
  std::optional<std::string> PathOf(uint64_t file) const;

  /// Returns the server of the present connection; empty while there is none.
  ///
  /// @pre  on the loop's thread
  std::optional<ServerAddress> Server() const;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;  // handlers of the loop share it
};

}  // namespace warpverbs::inline v0_2::gpuio
