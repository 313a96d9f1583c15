#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/open_files.hpp"
#include "host/log/refusal.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/exchange.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

/// Two ends of a TCP exchange on this machine, and a peer that sends raw bytes.
namespace warpverbs::inline v0_2::host {

inline Deadline Soon() { return DeadlineIn(std::chrono::seconds(60)); }
inline Deadline AtOnce() { return DeadlineIn(std::chrono::milliseconds(50)); }

inline std::vector<uint8_t> BytesOf(std::string_view text) { return {text.begin(), text.end()}; }

/// Both ends of a connection.
struct TcpPair {
  explicit TcpPair(const std::string& host = "127.0.0.1") : TcpPair(TcpListener({.host = host}), host) {}

  TcpExchange here, there;

 private:
  TcpPair(const TcpListener& listener, const std::string& host)
      : here(TcpExchange::Connect({host, listener.port()}, Soon())), there(listener.Accept(Soon())) {}
};

/// A peer that connects and then acts as the test tells it.
class RawPeer {
 public:
  explicit RawPeer(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }

  /// Says what a peer says first.
  void Greet() const { Send({"WVEx\0\2\0\0", 8}); }

  void Send(std::string_view bytes) const {
    EXPECT_EQ(send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  std::string Receive(size_t count) const {
    std::string bytes(count, '\0');
    const ssize_t received = recv(socket_.get(), bytes.data(), count, MSG_WAITALL);
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(received, 0)));
    return bytes;
  }
  void Close() { socket_.Close(); }
  /// Closes with a reset, like a process that is killed with unread data.
  void Abort() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(socket_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    Close();
  }
  int fd() const { return socket_.get(); }

 private:
  FileDescriptor socket_;
};

/// An exchange whose peer is a RawPeer.
struct RawExchange {
  TcpListener listener{{.host = "127.0.0.1"}};
  RawPeer peer{listener.port()};
  TcpExchange exchange = (peer.Greet(), listener.Accept(Soon()));

  std::string Swap(Deadline deadline = Soon()) {
    return SentenceOf([&] { exchange.Swap(BytesOf("mine"), "a word", deadline); });
  }
};

}  // namespace warpverbs::inline v0_2::host
