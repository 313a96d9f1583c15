#pragma once

#include <memory>

#include "gpuio/daemon/file_store.hpp"
#include "warpverbs/transport/event_loop.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Files of a server, over the NICs of several devices.
///
/// Memory is reached only over the NICs that it is registered on. So each device has a connection of its own,
/// made when its memory is first used, with files of its own, opened when they are first used there. I/O that
/// was submitted before Close() completes.
///
/// @pre  all calls are on the loop's thread
class ServerFiles final : public FileStore {
 public:
  /// @param client  connection of `config.device`, which must outlive this
  /// @param config  of `client`; the other connections differ in the device
  ServerFiles(FileClient& client, const FileClientConfig& config, transport::EventLoop& loop);

  /// Pending I/O of other devices ends with ECANCELED; its callbacks may run afterwards.
  ~ServerFiles() override;

  void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) override;
  void Close(uint64_t file) override;
  void Read(uint64_t file, uint64_t offset, const RegisteredRange& target, Holes holes,
            std::function<void(ReadResult)> done) override;
  void Write(uint64_t file, uint64_t offset, const RegisteredRange& source,
             std::function<void(int64_t)> done) override;

 private:
  class Impl;

  std::shared_ptr<Impl> impl_;  // callbacks of the clients share it
};

}  // namespace warpverbs::inline v0_2::gpuio
