#include "warpverbs/host/tcp_exchange.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "connect/frame.hpp"
#include "connect/socket.hpp"
#include "connect/waiting.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shortage.hpp"

namespace warpverbs::host {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

bool WouldWait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

/// Returns whether a peer may start to listen in a moment.
bool MayYetListen(int error) {
  constexpr int kLater[] = {ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, EHOSTDOWN, EAGAIN};
  return std::find(std::begin(kLater), std::end(kLater), error) != std::end(kLater);
}

/// Returns whether the failure is local: a shortage or an invalid socket.
bool IsOwnFailure(int error) { return IsShortage(error) || error == EBADF || error == EINVAL; }
constexpr char kOwnRemedy[] = "Close other files, or raise the limit (ulimit -n)";

/// One swap over a connection.
class Swapping {
 public:
  Swapping(int socket, std::span<const uint8_t> mine, const Waiting& waiting)
      : socket_(socket), header_(FrameHeader(mine.size())), mine_(mine), waiting_(waiting) {}

  /// @errors  FrameRefusal
  std::vector<uint8_t> Run() {
    while (true) {
      const bool received = Receive();  // first: the bytes of a foreign program explain more than its end
      const bool sent = Send();
      if (Sent() && reader_.Wants() == 0) return std::move(reader_.message());
      if (waiting_.over()) throw TooLate();
      const int events = (reader_.Wants() != 0 ? POLLIN : 0) | (Sent() ? 0 : POLLOUT);
      if (!received && !sent) waiting_.ForEvents(socket_, static_cast<short>(events));
    }
  }

 private:
  bool Sent() const { return sent_ == header_.size() + mine_.size(); }

  /// Receives what has arrived. Returns false if nothing has.
  bool Receive() {
    std::array<uint8_t, 65536> piece;
    const size_t wanted = std::min(reader_.Wants(), piece.size());
    if (wanted == 0) return false;
    const ssize_t bytes = recv(socket_, piece.data(), wanted, 0);
    if (bytes < 0 && errno == EINTR) return true;  // try again
    if (bytes < 0 && WouldWait(errno)) return false;
    if (bytes < 0) throw Left(errno);
    if (bytes == 0) throw Left(0);
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
      while (reader_.Wants() != 0 && Receive()) {
      }
      throw Left(error);
    }
    sent_ += static_cast<size_t>(bytes);
    return true;
  }

  FrameRefusal TooLate() const {
    const std::string within = waiting_.Within();
    constexpr char kRemedy[] = "Check what delays the peer, or pass a longer deadline";
    if (reader_.Wants() == 0) return {"it did not take the whole message " + within, kRemedy};
    return {reader_.Came() + " of its message arrived " + within, kRemedy};
  }

  FrameRefusal Left(int error) const {
    constexpr char kRemedy[] = "Check the peer's error";
    if (error != 0 && error != EPIPE && error != ECONNRESET) {
      return {Error::FromErrno("", "", error, "").reason() + " after " + reader_.Came() + " of its message",
              "Check the network between the two"};
    }
    const bool nothing_came = reader_.Wants() == kFrameHeaderBytes;
    return {"the peer closed the connection" +
                (nothing_came ? "" : " after " + reader_.Came() + " of its message"),
            kRemedy};
  }

  int socket_;
  std::vector<uint8_t> header_;
  std::span<const uint8_t> mine_;
  const Waiting& waiting_;
  size_t sent_ = 0;  // bytes of header and message
  FrameReader reader_;
};

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);  // optional: ignores failure
}

/// Listens at an address of this machine. Invalid on failure, with errno set.
FileDescriptor ListenAt(const SocketAddress& address) {
  FileDescriptor socket = MakeSocket(address.family());
  if (!socket) return socket;
  SetOption(socket.get(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6) SetOption(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(socket.get(), address.get(), address.bytes) == 0 && listen(socket.get(), SOMAXCONN) == 0)
    return socket;
  const int error = errno;
  socket.Close();
  errno = error;
  return socket;
}

}  // namespace

TcpExchange::TcpExchange(FileDescriptor socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {
  SetOption(socket_.get(), IPPROTO_TCP, TCP_NODELAY, 1);
}

TcpExchange TcpExchange::Connect(const TcpAddress& peer, Deadline deadline) {
  constexpr milliseconds kLongestPause(200);
  const Waiting waiting(deadline);
  const std::vector<SocketAddress> addresses = Resolve(peer, false, waiting);
  for (milliseconds pause(5);; pause = std::min(2 * pause, kLongestPause)) {
    int reason = 0;
    for (const SocketAddress& address : addresses) {
      const auto to_come = static_cast<size_t>(&addresses.back() - &address);
      int error = 0;
      FileDescriptor socket = ConnectOnce(address, Waiting(waiting.Share(to_come)), error);
      if (socket) return {std::move(socket), ToText(peer)};
      if (reason == 0 || MayYetListen(error)) reason = error;
    }
    if (!MayYetListen(reason) || waiting.over()) {
      throw Error::FromErrno(
          "connect", "to " + ToText(peer) + " " + waiting.Within(), reason,
          IsOwnFailure(reason) ? kOwnRemedy : "Start the peer there, and check host and port");
    }
    std::this_thread::sleep_until(std::min(steady_clock::now() + pause, deadline));
  }
}

std::vector<uint8_t> TcpExchange::Swap(std::span<const uint8_t> mine, std::string_view what,
                                       Deadline deadline) {
  const std::string object = std::string(what) + " with " + peer_;
  if (!socket_) {
    throw Error("swap", object,
                "the connection is closed because " +
                    (failure_.empty() ? "this side failed during a swap" : failure_),
                "Connect to the peer again");
  }
  if (mine.size() > kMaxSwapBytes) {
    throw Error("swap", object,
                std::to_string(mine.size()) + " bytes exceed the limit of " + std::to_string(kMaxSwapBytes) +
                    " bytes",
                "Swap smaller messages");
  }
  const Waiting waiting(deadline);
  try {
    return Swapping(socket_.get(), mine, waiting).Run();
  } catch (const FrameRefusal& refusal) {
    socket_.Close();  // first: the stream is in the middle of a message
    failure_ = refusal.reason;
    throw Error("swap", object, refusal.reason, refusal.remedy);
  } catch (...) {
    socket_.Close();
    throw;
  }
}

TcpListener::TcpListener(const TcpAddress& address) {
  int reason = 0;
  for (const SocketAddress& one : Resolve(address, true, Waiting(DeadlineIn(std::chrono::seconds(10))))) {
    socket_ = ListenAt(one);
    if (socket_) break;
    reason = errno;
  }
  SocketAddress own;
  if (socket_ && getsockname(socket_.get(), own.get(), &own.bytes) != 0) {
    reason = errno;
    socket_.Close();
  }
  if (!socket_) {
    throw Error::FromErrno("listen", "on " + ToText(address), reason,
                           "Pass an address of this machine and a free port");
  }
  port_ = own.port();
}

TcpExchange TcpListener::Accept(Deadline deadline) const {
  const Waiting waiting(deadline);
  const std::string object = "a peer on port " + std::to_string(port_);
  while (true) {
    SocketAddress peer;
    FileDescriptor socket(accept4(socket_.get(), peer.get(), &peer.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) return {std::move(socket), peer.ToText()};
    // Other errors concern a connection that has already failed, not the next one: accept(2).
    if (IsOwnFailure(errno)) throw Error::FromErrno("accept", object, errno, kOwnRemedy);
    if (WouldWait(errno)) waiting.ForEvents(socket_.get(), POLLIN);
    if (waiting.over()) {
      throw Error("accept", object, "no peer connected " + waiting.Within(),
                  "Start the peer with this machine's name and this port");
    }
  }
}

}  // namespace warpverbs::host
