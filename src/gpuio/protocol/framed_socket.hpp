#pragma once

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "gpuio/protocol/messages.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio::protocol {

/// A TCP connection that carries frames.
///
/// All calls and callbacks are on the loop's thread. The loop's pending operations own it together with its
/// user: after Close() it calls nothing.
class FramedSocket : public std::enable_shared_from_this<FramedSocket> {
 public:
  using OnFrame = std::function<void(const FrameHeader& header, std::span<const uint8_t> body)>;

  /// @param by_peer  whether the peer has closed the connection; otherwise it may not know that it ended
  using OnEnd = std::function<void(const std::string& reason, bool by_peer)>;

  /// @param socket  connected
  explicit FramedSocket(asio::ip::tcp::socket socket);

  /// Receives frames until the connection ends or Close().
  ///
  /// @param on_end  called once when the peer closes the connection or sends something that is not a frame,
  /// or
  ///                the connection fails
  void Start(OnFrame on_frame, OnEnd on_end);

  /// Sends a frame behind the earlier ones.
  ///
  /// @param sent  called when the kernel has taken all of it; not called if the connection ends before
  void Send(std::vector<uint8_t> frame, std::function<void()> sent = {});

  /// Ends the connection, at once, or after what is queued has been sent, a few seconds later at most. Calls
  /// nothing more of Start().
  void Close();
  void CloseAfterSending();

  /// @pre  not closed
  int native_handle() { return socket_.native_handle(); }

  /// Returns the peer's address, for the log.
  const std::string& peer() const { return peer_; }

 private:
  struct Outgoing {
    std::vector<uint8_t> bytes{};
    std::function<void()> sent{};
  };

  void Receive();
  void SendNext();
  void End(const std::error_code& error);
  void End(const std::string& reason, bool by_peer);

  asio::ip::tcp::socket socket_;
  std::string peer_;
  OnFrame on_frame_;
  OnEnd on_end_;
  asio::steady_timer linger_;
  bool closed_ = false, close_when_sent_ = false;
  std::vector<uint8_t> incoming_;
  size_t received_ = 0;
  std::deque<Outgoing> outgoing_;
};

}  // namespace warpverbs::inline v0_2::gpuio::protocol
