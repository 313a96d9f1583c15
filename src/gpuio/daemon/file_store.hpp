#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpuio/files/file_client.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Memory that a server reaches by the NICs of a device.
struct RegisteredRange {
  transport::RdmaRemoteBuffer memory{};
  int device = 0;  ///< device of RdmaTransport
};

/// The files that the daemon reads and writes. Callbacks run on the daemon's loop, never within the call.
class FileStore {
 public:
  virtual ~FileStore() = default;

  /// @param path   relative to the mount
  /// @param flags  an access mode of open(2)
  virtual void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) = 0;
  virtual void Close(uint64_t file) = 0;

  /// As FileClient's.
  virtual void Read(uint64_t file, uint64_t offset, const RegisteredRange& target, Holes holes,
                    std::function<void(ReadResult)> done) = 0;
  virtual void Write(uint64_t file, uint64_t offset, const RegisteredRange& source,
                     std::function<void(int64_t)> done) = 0;
};

}  // namespace warpverbs::inline v0_2::gpuio
