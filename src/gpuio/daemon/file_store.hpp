#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpuio/files/file_client.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The files that the daemon reads and writes. Callbacks run on the daemon's loop, never within the call.
class FileStore {
 public:
  virtual ~FileStore() = default;

  /// @param path   relative to the mount
  /// @param flags  an access mode of open(2)
  virtual void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) = 0;
  virtual void Close(uint64_t file) = 0;

  /// As FileClient's.
  virtual void Read(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& target, Holes holes,
                    std::function<void(ReadResult)> done) = 0;
  virtual void Write(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& source,
                     std::function<void(int64_t)> done) = 0;
};

/// Files of a server.
class ServerFiles final : public FileStore {
 public:
  explicit ServerFiles(FileClient& client) : client_(client) {}

  void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) override {
    client_.Open(std::move(path), flags, 0, std::move(done));
  }
  void Close(uint64_t file) override { client_.Close(file); }
  void Read(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& target, Holes holes,
            std::function<void(ReadResult)> done) override {
    client_.Read(file, offset, target, std::move(done), holes);
  }
  void Write(uint64_t file, uint64_t offset, const transport::RdmaRemoteBuffer& source,
             std::function<void(int64_t)> done) override {
    client_.Write(file, offset, source, std::move(done));
  }

 private:
  FileClient& client_;
};

}  // namespace warpverbs::inline v0_2::gpuio
