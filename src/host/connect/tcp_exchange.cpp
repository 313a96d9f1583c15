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

/// Whether a peer may be there in a moment.
bool MayYetListen(int error) {
  constexpr int kLater[] = {ECONNREFUSED, ECONNRESET, ETIMEDOUT, EHOSTUNREACH, EHOSTDOWN, EAGAIN};
  return std::find(std::begin(kLater), std::end(kLater), error) != std::end(kLater);
}

/// Whether this process has too little of something, or no socket at all.
bool IsOwnFailure(int error) { return IsShortage(error) || error == EBADF || error == EINVAL; }
constexpr char kOwnRemedy[] = "Close other files, or raise the limit (ulimit -n)";

/// One swap on a connection.
class Swapping {
 public:
  Swapping(int socket, std::span<const uint8_t> mine, const Waiting& waiting)
      : socket_(socket), header_(FrameHeader(mine.size())), mine_(mine), waiting_(waiting) {}

  /// @errors  FrameRefusal
  std::vector<uint8_t> Run() {
    while (true) {
      const bool received = Receive();  // first: a stranger's words say more than that it left
      const bool sent = Send();
      if (Sent() && reader_.Wants() == 0) return std::move(reader_.message());
      if (waiting_.over()) throw TooLate();
      const int events = (reader_.Wants() != 0 ? POLLIN : 0) | (Sent() ? 0 : POLLOUT);
      if (!received && !sent) waiting_.ForEvents(socket_, static_cast<short>(events));
    }
  }

 private:
  bool Sent() const { return sent_ == header_.size() + mine_.size(); }

  /// Takes what has come; false if that was nothing.
  bool Receive() {
    std::array<uint8_t, 65536> piece;
    const size_t wanted = std::min(reader_.Wants(), piece.size());
    if (wanted == 0) return false;
    const ssize_t bytes = recv(socket_, piece.data(), wanted, 0);
    if (bytes < 0 && errno == EINTR) return true;  // once more
    if (bytes < 0 && WouldWait(errno)) return false;
    if (bytes < 0) throw Left(errno);
    if (bytes == 0) throw Left(0);
    if (auto refusal = reader_.Take({piece.data(), static_cast<size_t>(bytes)})) throw *refusal;
    return true;
  }

  /// Sends what the kernel takes; false if that was nothing.
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
    if (reader_.Wants() == 0) return {"it did not take all that was sent " + within, kRemedy};
    return {reader_.Came() + " of its message came " + within, kRemedy};
  }

  FrameRefusal Left(int error) const {
    constexpr char kRemedy[] = "See what the other side says of its end";
    if (error != 0 && error != EPIPE && error != ECONNRESET) {
      return {Error::FromErrno("", "", error, "").reason() + " after " + reader_.Came() + " of its message",
              "Check the network between"};
    }
    return {"it left after " + reader_.Came() + " of its message", kRemedy};
  }

  int socket_;
  std::vector<uint8_t> header_;
  std::span<const uint8_t> mine_;
  const Waiting& waiting_;
  size_t sent_ = 0;  // of header and message
  FrameReader reader_;
};

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);  // does without where it fails
}

/// Listens, if the address is one of this machine; none where errno says why.
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
          IsOwnFailure(reason) ? kOwnRemedy : "Start the other side there, and check host and port");
    }
    std::this_thread::sleep_until(std::min(steady_clock::now() + pause, deadline));
  }
}

std::vector<uint8_t> TcpExchange::Swap(std::span<const uint8_t> mine, std::string_view what,
                                       Deadline deadline) {
  const std::string object = std::string(what) + " with " + peer_;
  if (!socket_) {
    throw Error(
        "swap", object,
        "the connection is closed, for " + (failure_.empty() ? "this side failed half-way" : failure_),
        "Connect to the peer anew");
  }
  if (mine.size() > kMaxSwapBytes) {
    throw Error("swap", object,
                std::to_string(mine.size()) + " bytes are more than the " + std::to_string(kMaxSwapBytes) +
                    " of a message",
                "Swap less at a time");
  }
  const Waiting waiting(deadline);
  try {
    return Swapping(socket_.get(), mine, waiting).Run();
  } catch (const FrameRefusal& refusal) {
    socket_.Close();  // first: it is half-way through a message, whatever fails now
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
                           "Name an address of this machine and a free port");
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
    // What concerns a connection that has failed already says nothing of the next one: accept(2).
    if (IsOwnFailure(errno)) throw Error::FromErrno("accept", object, errno, kOwnRemedy);
    if (WouldWait(errno)) waiting.ForEvents(socket_.get(), POLLIN);
    if (waiting.over()) {
      throw Error("accept", object, "nobody connected " + waiting.Within(),
                  "Start the other side with this machine's name and this port");
    }
  }
}

}  // namespace warpverbs::host
