#include "gpuio/server/server.hpp"

#include <algorithm>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdio>
#include <map>
#include <system_error>
#include <utility>

#include "gpuio/server/session.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {

using asio::ip::tcp;

/// Accepts clients. Handlers of the loop share it.
class FileServer::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(const FileServerConfig& config, transport::EventLoop& loop)
      : parts_(std::make_shared<ServerParts>(loop, config)),
        acceptor_(loop.context()),
        pause_(loop.context()) {
    Listen();
  }

  void Accept() {
    acceptor_.async_accept([self = shared_from_this()](const std::error_code& error, tcp::socket socket) {
      if (self->closed_) return;
      if (error) return self->Pause(error);
      self->Serve(std::move(socket));
      self->Accept();
    });
  }

  void Close() {
    if (std::exchange(closed_, true)) return;
    std::error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    const auto sessions = std::exchange(sessions_, {});
    for (const auto& [number, session] : sessions) session->Stop();
    // All writes end before any client sees its connection end.
    parts_->disk.reset();
    parts_->threads.join();  // they post to the loop, which may end after this
    for (const auto& [number, session] : sessions) session->Close();
    parts_.reset();
  }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  std::string Describe() const {
    const FileServerConfig& config = parts_->config;
    const auto endpoint = acceptor_.local_endpoint();
    const std::string address = endpoint.address().to_string();
    return "folder:  " + config.folder + (config.read_only ? ", read-only" : "") +
           "\naddress: " + (endpoint.address().is_v6() ? "[" + address + "]" : address) + ":" +
           std::to_string(endpoint.port()) + "\ndisk:    " + parts_->disk->Describe() + "; " +
           (config.mode == IoMode::kBuffered ? "buffered I/O" : parts_->folder.DescribeDirectIo()) +
           "\nmemory:  " + std::to_string(parts_->arena.buffers()) + " buffers of " +
           std::to_string(kChunkBytes >> 10) + " KiB\n";
  }

  FileServerStatistics Statistics() const {
    FileServerStatistics statistics = parts_->statistics;
    statistics.clients_now = parts_->clients.size();
    statistics.buffers = parts_->arena.buffers();
    statistics.buffers_used = statistics.buffers - parts_->arena.free();
    return statistics;
  }

 private:
  void Listen() {
    const FileServerConfig& config = parts_->config;
    std::error_code error;
    const auto address = asio::ip::make_address(config.address, error);
    const tcp::endpoint endpoint(address, config.port);
    if (!error) acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) {
      throw host::Error::FromErrno("listen on", config.address + " port " + std::to_string(config.port),
                                   error.value(), "Choose an address of this machine and a free port");
    }
  }

  /// Waits a moment when the process has no file left, instead of failing again at once.
  void Pause(const std::error_code& error) {
    parts_->Log("cannot accept a client: " + error.message());
    pause_.expires_after(std::chrono::milliseconds(200));
    pause_.async_wait([self = shared_from_this()](const std::error_code& cancelled) {
      if (!cancelled && !self->closed_) self->Accept();
    });
  }

  void Serve(tcp::socket socket) {
    const uint64_t number = next_session_++;
    const auto session = sessions_[number] = std::make_shared<Session>(parts_, std::move(socket));
    session->Start([self = weak_from_this(), number] {
      const auto server = self.lock();
      if (server && !server->closed_) server->sessions_.erase(number);
    });
    EndOldestStranger();
  }

  /// Bounds the connections that have not greeted yet. A client greets at once, so it is not the oldest.
  void EndOldestStranger() {
    if (sessions_.size() - parts_->clients.size() <= parts_->config.max_clients) return;
    const auto oldest = std::find_if(sessions_.begin(), sessions_.end(),
                                     [](const auto& entry) { return !entry.second->greeted(); });
    if (oldest == sessions_.end()) return;
    const auto stranger = oldest->second;
    stranger->End("too many connections wait for a greeting");
  }

  std::shared_ptr<ServerParts> parts_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::map<uint64_t, std::shared_ptr<Session>> sessions_;  // in the order of their arrival
  uint64_t next_session_ = 0;
  bool closed_ = false;
};

FileServer::FileServer(const FileServerConfig& config, transport::EventLoop& loop)
    : impl_(std::make_shared<Impl>(config, loop)) {
  impl_->Accept();
}

FileServer::~FileServer() { impl_->Close(); }

uint16_t FileServer::port() const { return impl_->port(); }
std::string FileServer::Describe() const { return impl_->Describe(); }
FileServerStatistics FileServer::Statistics() const { return impl_->Statistics(); }

std::string FileServerStatistics::ToText() const {
  const auto field = [](const char* name, uint64_t value) {
    return std::string(name) + std::to_string(value);
  };
  return field("clients ", clients_now) + field(" of ", clients) + field(", strangers ", strangers) +
         field(", requests ", requests) + field(", errors ", errors) + field(", bytes read ", bytes_read) +
         field(", bytes written ", bytes_written) + field(", bytes in holes ", hole_bytes) +
         field(", buffers used ", buffers_used) + field(" of ", buffers);
}

}  // namespace warpverbs::inline v0_2::gpuio
