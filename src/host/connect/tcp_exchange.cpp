#include "warpverbs/host/tcp_exchange.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "connect/deadline_wait.hpp"
#include "connect/frame.hpp"
#include "connect/socket.hpp"
#include "connect/tcp_connection.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// Returns whether a peer may start to listen in a moment.
bool MayYetListen(int error) {
  constexpr int kLater[] = {ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, EHOSTDOWN, EAGAIN};
  return std::find(std::begin(kLater), std::end(kLater), error) != std::end(kLater);
}

/// One swap over a connection.
class SwapOperation {
 public:
  SwapOperation(int socket, std::span<const uint8_t> mine, const DeadlineWait& waiting)
      : socket_(socket), header_(FrameHeader(mine.size())), mine_(mine), waiting_(waiting) {}

  /// @errors  FrameRefusal
  std::vector<uint8_t> Run() {
    while (true) {
      const bool received = Receive();  // first: the bytes of a foreign program explain more than its end
      const bool sent = Send();
      if (Sent() && reader_.BytesWanted() == 0) return std::move(reader_.message());
      if (waiting_.over()) throw TimedOut();
      const int events = (reader_.BytesWanted() != 0 ? POLLIN : 0) | (Sent() ? 0 : POLLOUT);
      if (!received && !sent) waiting_.ForEvents(socket_, static_cast<short>(events));
    }
  }

 private:
  bool Sent() const { return sent_ == header_.size() + mine_.size(); }

  /// Receives what has arrived. Returns false if nothing has.
  bool Receive() {
    std::array<uint8_t, 65536> piece;
    const size_t wanted = std::min(reader_.BytesWanted(), piece.size());
    if (wanted == 0) return false;
    const ssize_t bytes = recv(socket_, piece.data(), wanted, 0);
    if (bytes < 0 && errno == EINTR) return true;  // try again
    if (bytes < 0 && WouldWait(errno)) return false;
    if (bytes < 0) throw Closed(errno);
    if (bytes == 0) throw Closed(0);
    if (auto refusal = reader_.Take({piece.data(), static_cast<size_t>(bytes)})) throw *refusal;
    return true;
  }

  /// Sends what the kernel accepts. Returns false if that is nothing.
  bool Send() {
    if (Sent()) return false;
    const bool in_header = sent_ < header_.size();
    const std::span<const uint8_t> rest =
        in_header ? std::span<const uint8_t>(header_).subspan(sent_) : mine_.subspan(sent_ - header_.size());
    const bool more_follows = in_header && !mine_.empty();
    const ssize_t bytes =
        send(socket_, rest.data(), rest.size(), MSG_NOSIGNAL | (more_follows ? MSG_MORE : 0));
    if (bytes < 0 && errno == EINTR) return true;
    if (bytes < 0 && WouldWait(errno)) return false;
    if (bytes < 0) {
      const int error = errno;
      while (reader_.BytesWanted() != 0 && Receive()) {
      }
      throw Closed(error);
    }
    sent_ += static_cast<size_t>(bytes);
    return true;
  }

  FrameRefusal TimedOut() const {
    const std::string within = waiting_.Within();
    constexpr char kRemedy[] = "Check what delays the peer, or pass a longer deadline";
    if (reader_.BytesWanted() == 0) return {"it did not take the whole message " + within, kRemedy};
    return {reader_.Progress() + " of its message arrived " + within, kRemedy};
  }

  FrameRefusal Closed(int error) const {
    constexpr char kRemedy[] = "Check the peer's error";
    if (error != 0 && error != EPIPE && error != ECONNRESET) {
      return {
          Error::FromErrno("", "", error, "").reason() + " after " + reader_.Progress() + " of its message",
          "Check the network between the two"};
    }
    const bool nothing_came = reader_.BytesWanted() == kFrameHeaderBytes;
    return {"the peer closed the connection" +
                (nothing_came ? "" : " after " + reader_.Progress() + " of its message"),
            kRemedy};
  }

  int socket_;
  std::vector<uint8_t> header_;
  std::span<const uint8_t> mine_;
  const DeadlineWait& waiting_;
  size_t sent_ = 0;  // bytes of header and message
  FrameReader reader_;
};

/// Says to a listener that this is a peer. Returns an errno value, 0 for success.
int Greet(int socket, const DeadlineWait& waiting) {
  const std::vector<uint8_t> greeting = Greeting();
  for (size_t sent = 0; sent < greeting.size();) {
    const ssize_t bytes = send(socket, greeting.data() + sent, greeting.size() - sent, MSG_NOSIGNAL);
    if (bytes >= 0) {
      sent += static_cast<size_t>(bytes);
    } else if (WouldWait(errno)) {
      if (!waiting.ForEvents(socket, POLLOUT)) return ETIMEDOUT;
    } else if (errno != EINTR) {
      return errno == EPIPE ? ECONNRESET : errno;
    }
  }
  return 0;
}

}  // namespace

TcpExchange::Connection::Connection(FileDescriptor connected, std::string name)
    : socket(std::move(connected)), peer(std::move(name)) {
  SetOption(socket.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

TcpExchange::TcpExchange(std::unique_ptr<Connection> connection) : connection_(std::move(connection)) {}
TcpExchange::TcpExchange(TcpExchange&&) noexcept = default;
TcpExchange& TcpExchange::operator=(TcpExchange&&) noexcept = default;
TcpExchange::~TcpExchange() = default;
std::string TcpExchange::PeerName() const { return connection_->peer; }

TcpExchange TcpExchange::Connect(const TcpAddress& peer, Deadline deadline) {
  constexpr milliseconds kLongestPause(200);
  const DeadlineWait waiting(deadline);
  const std::vector<SocketAddress> addresses = Resolve(peer, waiting);
  for (milliseconds pause(5);; pause = std::min(2 * pause, kLongestPause)) {
    int reason = 0;
    for (const SocketAddress& address : addresses) {
      const auto to_come = static_cast<size_t>(&addresses.back() - &address);
      int error = 0;
      const DeadlineWait share(waiting.Share(to_come));
      FileDescriptor socket = ConnectOnce(address, share, error);
      if (socket) error = Greet(socket.get(), share);
      if (socket && error == 0)
        return TcpExchange(std::make_unique<Connection>(std::move(socket), ToString(peer)));
      if (reason == 0 || MayYetListen(error)) reason = error;
    }
    if (!MayYetListen(reason) || waiting.over()) {
      throw Error::FromErrno(
          "connect", "to " + ToString(peer) + " " + waiting.Within(), reason,
          IsOwnFailure(reason) ? kOwnRemedy : "Start the peer there, and check host and port");
    }
    waiting.SleepUntil(steady_clock::now() + pause);
  }
}

std::vector<uint8_t> TcpExchange::Swap(std::span<const uint8_t> mine, std::string_view what,
                                       Deadline deadline) {
  auto& [socket, peer, failure] = *connection_;
  const std::string object = std::string(what) + " with " + peer;
  if (!socket) {
    throw Error(
        "swap", object,
        "the connection is closed because " + (failure.empty() ? "this side failed during a swap" : failure),
        "Connect to the peer again");
  }
  if (mine.size() > kMaxSwapBytes) {
    throw Error("swap", object,
                std::to_string(mine.size()) + " bytes exceed the limit of " + std::to_string(kMaxSwapBytes) +
                    " bytes",
                "Swap smaller messages");
  }
  const DeadlineWait waiting(deadline);
  try {
    return SwapOperation(socket.get(), mine, waiting).Run();
  } catch (const FrameRefusal& refusal) {
    socket.Close();  // first: the stream is in the middle of a message
    failure = refusal.reason;
    throw Error("swap", object, refusal.reason, refusal.remedy);
  } catch (...) {
    socket.Close();
    throw;
  }
}

}  // namespace warpverbs::inline v0_2::host
