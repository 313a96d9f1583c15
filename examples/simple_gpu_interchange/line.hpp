// Lines of text between two processes: how they learn of each other before there is RDMA.
#pragma once

#include <asio/ip/tcp.hpp>
#include <chrono>
#include <string>

/// Where two processes meet.
struct Meeting {
  std::string host;  ///< empty: any address of this machine
  std::string port = "18517";

  /// Reads "[HOST:]PORT" of one who listens, "HOST[:PORT]" of one who connects; an IPv6 address stands in
  /// brackets.
  ///
  /// @errors  std::invalid_argument: it is neither
  static Meeting Parse(const std::string& text, bool listens);
};

/// A connection over TCP. Every step throws std::runtime_error with a sentence, after `patience` at the
/// latest.
class Line {
 public:
  /// Waits for a peer; says where it listens, once it does.
  static Line Listen(const Meeting& meeting, std::chrono::seconds patience);
  /// Goes to a peer, which may start to listen a little later.
  static Line Connect(const Meeting& meeting, std::chrono::seconds patience);

  void Send(const std::string& text);
  std::string Receive();

 private:
  Line(asio::ip::tcp::iostream stream, std::chrono::seconds patience)
      : stream_(std::move(stream)), patience_(patience) {}

  asio::ip::tcp::iostream stream_;
  std::chrono::seconds patience_;
};
