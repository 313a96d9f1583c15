#pragma once

#include <asio/post.hpp>
#include <cstdint>
#include <filesystem>
#include <future>
#include <optional>

#include "gpuio/daemon/daemon.hpp"
#include "gpuio/daemon/server_files.hpp"
#include "gpuio/files/file_client.hpp"
#include "gpuio/local_servers.hpp"
#include "gpuio/server/server.hpp"

namespace warpverbs::bench {

/// A server of a folder, and a daemon that makes it a mount, on two threads of this process.
class ServedFolder {
 public:
  /// @errors  host::Error: as FileServer and Daemon
  ServedFolder(const std::filesystem::path& folder, gpuio::IoMode mode) : control_folder_(folder) {
    RunOn(server_loop_, [&] {
      gpuio::FileServerConfig config;
      config.folder = folder.string();
      config.address = "127.0.0.1";
      config.mode = mode;
      server_.emplace(config, server_loop_);
    });
    RunOn(daemon_loop_, [&] {
      gpuio::FileClientConfig config;
      config.servers = {{"127.0.0.1", server_->port()}};
      client_.emplace(config, daemon_loop_);
      files_.emplace(*client_, config, daemon_loop_);
      const gpuio::DaemonConfig daemon{.mount = folder.string(),
                                       .socket_path = (folder / "3fs-virt" / "socket").string()};
      daemon_.emplace(daemon, daemon_loop_, *files_);
    });
  }
  ~ServedFolder() {
    RunOn(daemon_loop_, [this] {
      daemon_.reset();
      files_.reset();
      client_.reset();
    });
    RunOn(server_loop_, [this] { server_.reset(); });
  }
  ServedFolder(const ServedFolder&) = delete;
  ServedFolder& operator=(const ServedFolder&) = delete;

 private:
  template <class Work>
  static void RunOn(transport::EventLoop& loop, const Work& work) {
    std::packaged_task<void()> task(work);
    asio::post(loop.executor(), [&task] { task(); });
    task.get_future().get();
  }

  ControlFolderRemover control_folder_;  // last to go
  transport::EventLoop server_loop_, daemon_loop_;
  std::optional<gpuio::FileServer> server_;
  std::optional<gpuio::FileClient> client_;
  std::optional<gpuio::ServerFiles> files_;
  std::optional<gpuio::Daemon> daemon_;
};

}  // namespace warpverbs::bench
