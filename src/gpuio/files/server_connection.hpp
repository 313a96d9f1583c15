#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpuio/files/file_client.hpp"
#include "gpuio/protocol/framed_socket.hpp"
#include "gpuio/protocol/messages.hpp"
#include "warpverbs/transport/rdma_transport.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// One connection to one server: TCP for requests, and a transport by which the server reaches memory.
///
/// All calls and callbacks are on the loop's thread. Its handlers share it. After Close() it calls nothing,
/// and the server reaches no memory.
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  struct Events {
    /// Requests may be sent: RDMA has worked.
    std::function<void(const protocol::Welcome& welcome)> ready{};
    std::function<void(const protocol::FrameHeader& header, std::span<const uint8_t> body)> reply{};
    /// The connection has ended, or there was none. Called once; nothing is called afterwards.
    ///
    /// @param by_server  the server has closed it, and does nothing more for its requests
    std::function<void(const std::string& reason, bool by_server)> end{};
  };

  ServerConnection(transport::EventLoop& loop, const FileClientConfig& config, const ServerAddress& server);

  /// Connects.
  void Start(Events events);

  /// @pre  ready
  void Send(std::vector<uint8_t> frame) { socket_->Send(std::move(frame)); }

  void Close();

 private:
  void Connect(const asio::ip::tcp::resolver::results_type& endpoints);
  void Greet();
  void OnFrame(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  void OnWelcome(const protocol::FrameHeader& header, std::span<const uint8_t> body);
  void End(const std::string& reason, bool by_server = false);

  transport::EventLoop& loop_;
  const FileClientConfig& config_;
  const ServerAddress server_;
  asio::ip::tcp::resolver resolver_;
  asio::ip::tcp::socket plain_;
  asio::steady_timer timer_;
  Events events_;
  std::shared_ptr<protocol::FramedSocket> socket_;
  std::optional<transport::RdmaTransport> transport_;
  uint64_t key_ = 0;
  bool welcomed_ = false, closed_ = false;
};

}  // namespace warpverbs::inline v0_2::gpuio
