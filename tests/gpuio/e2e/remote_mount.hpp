#pragma once

#include <memory>
#include <optional>
#include <string>

#include "gpuio/daemon/server_files.hpp"
#include "gpuio/mount_fixture.hpp"
#include "gpuio/server/server.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A folder that a server exports, and a daemon that serves it as a mount, in this process.
class RemoteMount {
 public:
  RemoteMount() {
    StartServer(false);
    OnLoop(loop_, [this] {
      FileClientConfig config;
      config.servers = {{"127.0.0.1", port_}};
      client_.emplace(config, loop_);
      files_.emplace(*client_, config, loop_);
      const DaemonConfig daemon{.mount = folder_.path(), .socket_path = folder_ / "3fs-virt/socket"};
      daemon_.emplace(daemon, loop_, *files_);
    });
  }
  ~RemoteMount() {
    OnLoop(loop_, [this] {
      daemon_.reset();
      files_.reset();
      client_.reset();
    });
    OnLoop(server_loop_, [this] { server_.reset(); });
  }

  /// Ends the server, and starts another one in its place.
  void RestartServer(bool read_only) {
    OnLoop(server_loop_, [this] { server_.reset(); });
    StartServer(read_only);
  }

  const char* path() const { return folder_.path().c_str(); }
  std::string File(const std::string& name) const { return folder_ / name; }
  uint16_t port() const { return port_; }

  DaemonStatistics Statistics() {
    DaemonStatistics statistics;
    OnLoop(loop_, [&] { statistics = daemon_->Statistics(); });
    return statistics;
  }

 private:
  void StartServer(bool read_only) {
    OnLoop(server_loop_, [&] {
      FileServerConfig config;
      config.folder = folder_.path();
      config.address = "127.0.0.1";
      config.port = port_;
      config.read_only = read_only;
      server_.emplace(config, server_loop_);
      port_ = server_->port();
    });
  }

  TemporaryFolder folder_;
  transport::EventLoop server_loop_, loop_;
  std::optional<FileServer> server_;
  uint16_t port_ = 0;
  std::optional<FileClient> client_;
  std::optional<ServerFiles> files_;
  std::optional<Daemon> daemon_;
};

/// A buffer with rings of both directions.
class RingedBuffer {
 public:
  /// @param gpu  ordinal; -1: memory of the host
  RingedBuffer(const char* mount, size_t bytes, int gpu, uint64_t flags = 0) {
    EXPECT_EQ(gpu < 0 ? hf3fs_iovcreate(&iov_, mount, bytes, 0, -1)
                      : hf3fs_iovcreate_gpu(&iov_, mount, bytes, 0, gpu),
              0);
    EXPECT_EQ(hf3fs_iorcreate4(&reads_, mount, 64, true, 0, 0, -1, flags), 0);
    EXPECT_EQ(hf3fs_iorcreate4(&writes_, mount, 64, false, 0, 0, -1, 0), 0);
  }
  ~RingedBuffer() {
    hf3fs_iordestroy(&writes_);
    hf3fs_iordestroy(&reads_);
    hf3fs_iovdestroy(&iov_);
  }
  RingedBuffer(const RingedBuffer&) = delete;
  RingedBuffer& operator=(const RingedBuffer&) = delete;

  const hf3fs_iov& iov() const { return iov_; }
  const hf3fs_ior& ring(bool read) const { return read ? reads_ : writes_; }

  int64_t Transfer(bool read, size_t at, int fd, size_t offset, uint64_t bytes) const {
    EXPECT_GE(hf3fs_prep_io(&ring(read), &iov_, read, iov_.base + at, fd, offset, bytes, nullptr), 0);
    EXPECT_EQ(hf3fs_submit_ios(&ring(read)), 0);
    return WaitForOne(ring(read)).result;
  }

 private:
  hf3fs_iov iov_{};
  hf3fs_ior reads_{}, writes_{};
};

}  // namespace warpverbs::inline v0_2::gpuio
