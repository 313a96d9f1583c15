#include "line.hpp"

#include <asio/io_context.hpp>
#include <cstdio>
#include <optional>
#include <regex>
#include <stdexcept>
#include <thread>
#include <utility>

using asio::ip::tcp;

namespace {

std::string Where(const Meeting& meeting) {
  return (meeting.host.empty() ? "port " : meeting.host + " port ") + meeting.port;
}

std::string Seconds(std::chrono::seconds patience) { return std::to_string(patience.count()) + " s"; }

tcp::acceptor Bind(asio::io_context& context, const Meeting& meeting) try {
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(meeting.host, meeting.port, tcp::resolver::passive);
  return tcp::acceptor(context, *found.begin());
} catch (const asio::system_error& error) {
  throw std::runtime_error("Cannot listen on " + Where(meeting) + ": " + error.code().message() +
                           ". Name an address of this machine and a free port.");
}

}  // namespace

Meeting Meeting::Parse(const std::string& text, bool listens) {
  static const std::regex listening(R"((?:(\[.+\]|[^:\[\]]+):)?([0-9]{1,5}))");
  static const std::regex connecting(R"((\[.+\]|[^:\[\]]+)(?::([0-9]{1,5}))?)");
  std::smatch parts;
  if (!std::regex_match(text, parts, listens ? listening : connecting))
    throw std::invalid_argument("'" + text + "' is not of the form " +
                                (listens ? "[HOST:]PORT" : "HOST[:PORT]"));
  Meeting meeting;
  meeting.host = parts[1];
  if (meeting.host.starts_with('[')) meeting.host = meeting.host.substr(1, meeting.host.size() - 2);
  if (parts[2].matched) meeting.port = parts[2];
  return meeting;
}

Line Line::Listen(const Meeting& meeting, std::chrono::seconds patience) {
  asio::io_context context;
  tcp::acceptor acceptor = Bind(context, meeting);
  const std::string port = std::to_string(acceptor.local_endpoint().port());
  std::printf("   listening on port %s\n", port.c_str());
  std::optional<tcp::socket> peer;
  acceptor.async_accept([&](const asio::error_code& error, tcp::socket socket) {
    if (!error) peer = std::move(socket);
  });
  context.run_for(patience);
  if (!peer) {
    throw std::runtime_error("Nobody connected to port " + port + " within " + Seconds(patience) +
                             ". Start the other side with --connect HOST:" + port + ".");
  }
  const auto protocol = peer->local_endpoint().protocol();
  tcp::iostream stream;  // its socket outlives the context of this one
  stream.socket().assign(protocol, peer->release());
  return {std::move(stream), patience};
}

Line Line::Connect(const Meeting& meeting, std::chrono::seconds patience) {
  constexpr std::chrono::milliseconds kBetweenTries(50);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (true) {
    tcp::iostream stream;
    stream.expires_at(deadline);
    stream.connect(meeting.host, meeting.port);
    if (stream) return {std::move(stream), patience};
    const bool refused = stream.error() == asio::error::connection_refused;
    if (!refused || std::chrono::steady_clock::now() + kBetweenTries >= deadline) {
      throw std::runtime_error("Cannot connect to " + Where(meeting) + ": " + stream.error().message() +
                               ". Start the other side there with --listen " + meeting.port + ".");
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void Line::Send(const std::string& text) {
  stream_.expires_after(patience_);
  stream_ << text << std::endl;
  if (!stream_) throw std::runtime_error("Cannot reach the peer: " + stream_.error().message() + ".");
}

std::string Line::Receive() {
  stream_.expires_after(patience_);
  std::string text;
  if (std::getline(stream_, text)) return text;
  if (stream_.error() == asio::error::timed_out)
    throw std::runtime_error("The peer said nothing for " + Seconds(patience_) + ".");
  throw std::runtime_error("The peer left: its process ended, or the network between failed.");
}
