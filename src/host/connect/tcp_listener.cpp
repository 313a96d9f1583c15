#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "connect/deadline_wait.hpp"
#include "connect/frame.hpp"
#include "connect/socket.hpp"
#include "connect/tcp_connection.hpp"
#include "log/log.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/tcp_exchange.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

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

/// The listening socket, and the connections that have not greeted yet. Any number of threads accept: the
/// kernel gives each arrival to one of them at a time (EPOLLONESHOT).
struct TcpListener::Socket {
  FileDescriptor file;
  uint16_t port = 0;

  void StartToWait();

  /// Handles one event. Returns false if there is none.
  ///
  /// @param peer  set if a peer has greeted
  /// @errors  Error: this machine is short of files or memory
  bool HandleEvent(std::optional<TcpExchange>& peer);

  int events() const { return events_.get(); }  ///< file that is readable if there is an event
  std::string LastRefusal() const;
  std::string object() const { return "a peer on port " + std::to_string(port); }

  static constexpr size_t kMostArrivals = 64;  // each costs a file

 private:
  /// A connection that has not greeted yet.
  struct Arrival {
    FileDescriptor socket;
    SocketAddress address;
    std::array<uint8_t, kGreetingBytes> greeting{};
    size_t bytes = 0;  // of the greeting that have come
  };
  using Arrivals = std::list<Arrival>;
  enum class Next : uint8_t { kWait, kGreeted, kRefused };

  void AcceptArrival(std::optional<TcpExchange>& peer);
  void Advance(Arrivals one, int operation, std::optional<TcpExchange>& peer);
  Next ReadGreeting(Arrival& arrival);
  void Watch(int operation, int fd, uint32_t events) const;
  void Refuse(const Arrival& arrival, const std::string& reason);
  bool DropOldest();

  FileDescriptor events_;  // epoll
  mutable sync::Mutex mutex_;
  Arrivals arrivals_ WARPVERBS_GUARDED_BY(mutex_);  // the one that was silent longest is first
  std::string last_refusal_ WARPVERBS_GUARDED_BY(mutex_);
};

/// @errors  Error: the kernel has no file or memory left
void TcpListener::Socket::Watch(int operation, int fd, uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (epoll_ctl(events_.get(), operation, fd, &event) != 0)
    throw Error::FromErrno("accept", object(), errno, kOwnRemedy);
}

void TcpListener::Socket::StartToWait() {
  events_ = FileDescriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!events_) throw Error::FromErrno("accept", object(), errno, kOwnRemedy);
  Watch(EPOLL_CTL_ADD, file.get(), EPOLLIN);
}

std::string TcpListener::Socket::LastRefusal() const {
  const sync::LockGuard lock(mutex_);
  return last_refusal_;
}

/// Refuses a connection that is not a peer's. The log has it once for each host: a scanner may come often.
void TcpListener::Socket::Refuse(const Arrival& arrival, const std::string& reason) {
  {
    const sync::LockGuard lock(mutex_);
    last_refusal_ = arrival.address.ToString() + " was refused because " + reason;
  }
  WarnOnce("a connection from " + arrival.address.host() + " to port " + std::to_string(port),
           "refused because " + reason + ". Still waiting for the peer");
}

/// Refuses the connection that was silent longest. Returns false if there is none.
bool TcpListener::Socket::DropOldest() {
  Arrivals oldest;
  {
    const sync::LockGuard lock(mutex_);
    if (arrivals_.empty()) return false;
    oldest.splice(oldest.begin(), arrivals_, arrivals_.begin());
  }
  Refuse(oldest.front(), "it said nothing, and others need its place");
  return true;
}

bool TcpListener::Socket::HandleEvent(std::optional<TcpExchange>& peer) {
  epoll_event event{};
  if (epoll_wait(events_.get(), &event, 1, 0) != 1) return false;
  if (event.data.fd == file.get()) {
    AcceptArrival(peer);
    return true;
  }
  Arrivals one;  // this thread's, until it is put back
  {
    const sync::LockGuard lock(mutex_);
    const auto found = std::find_if(arrivals_.begin(), arrivals_.end(), [&](const Arrival& arrival) {
      return arrival.socket.get() == event.data.fd;
    });
    if (found == arrivals_.end()) return true;  // dropped meanwhile
    one.splice(one.begin(), arrivals_, found);
  }
  Advance(std::move(one), EPOLL_CTL_MOD, peer);
  return true;
}

/// Accepts a connection. If files have run out, drops a silent one, so that the next try may succeed.
void TcpListener::Socket::AcceptArrival(std::optional<TcpExchange>& peer) {
  Arrivals one(1);
  SocketAddress& address = one.front().address;
  one.front().socket =
      FileDescriptor(accept4(file.get(), address.get(), &address.bytes, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (one.front().socket) return Advance(std::move(one), EPOLL_CTL_ADD, peer);
  // Other errors concern a connection that has already failed, not the next one: accept(2).
  const int error = errno;
  if (IsOwnFailure(error) && !DropOldest()) throw Error::FromErrno("accept", object(), error, kOwnRemedy);
}

/// Reads what an arrival says. Unless it has greeted or is refused, it waits among the others.
///
/// @param operation  EPOLL_CTL_ADD for a new one, EPOLL_CTL_MOD for one that has waited
void TcpListener::Socket::Advance(Arrivals one, int operation, std::optional<TcpExchange>& peer) {
  Arrival& arrival = one.front();
  const int fd = arrival.socket.get();
  switch (ReadGreeting(arrival)) {
    case Next::kRefused:
      return;
    case Next::kGreeted:
      if (operation == EPOLL_CTL_MOD) epoll_ctl(events_.get(), EPOLL_CTL_DEL, fd, nullptr);
      peer = TcpExchange(
          std::make_unique<TcpExchange::Connection>(std::move(arrival.socket), arrival.address.ToString()));
      return;
    case Next::kWait:
      break;
  }
  bool crowded = false;
  {
    const sync::LockGuard lock(mutex_);
    Watch(operation, fd, EPOLLIN | EPOLLONESHOT);
    arrivals_.splice(arrivals_.end(), one);
    crowded = arrivals_.size() > kMostArrivals;
  }
  if (crowded) DropOldest();
}

/// @errors  Error: this machine is short of memory
TcpListener::Socket::Next TcpListener::Socket::ReadGreeting(Arrival& arrival) {
  const std::span<uint8_t> rest = std::span(arrival.greeting).subspan(arrival.bytes);
  const ssize_t bytes = recv(arrival.socket.get(), rest.data(), rest.size(), 0);
  if (bytes < 0 && (errno == EINTR || WouldWait(errno))) return Next::kWait;
  if (bytes < 0 && IsOwnFailure(errno)) throw Error::FromErrno("accept", object(), errno, kOwnRemedy);
  if (bytes <= 0) {
    Refuse(arrival, "it closed the connection before it named its protocol");
    return Next::kRefused;
  }
  arrival.bytes += static_cast<size_t>(bytes);
  if (const auto refusal = CheckGreeting(std::span(arrival.greeting).first(arrival.bytes))) {
    Refuse(arrival, refusal->reason);
    return Next::kRefused;
  }
  return arrival.bytes == kGreetingBytes ? Next::kGreeted : Next::kWait;
}

TcpListener::TcpListener(TcpListener&&) noexcept = default;
TcpListener& TcpListener::operator=(TcpListener&&) noexcept = default;
TcpListener::~TcpListener() = default;
uint16_t TcpListener::port() const { return socket_->port; }

TcpListener::TcpListener(const TcpAddress& address) : socket_(std::make_unique<Socket>()) {
  FileDescriptor& file = socket_->file;
  int reason = 0;
  for (const SocketAddress& one : ResolveOwn(address)) {
    file = ListenAt(one);
    if (file) break;
    reason = errno;
  }
  SocketAddress own;
  if (file && getsockname(file.get(), own.get(), &own.bytes) != 0) {
    reason = errno;
    file.Close();
  }
  if (!file) {
    throw Error::FromErrno("listen", "on " + ToString(address), reason,
                           "Pass an address of this machine and a free port");
  }
  socket_->port = own.port();
  socket_->StartToWait();
}

TcpExchange TcpListener::Accept(Deadline deadline) const {
  // Handles what has come by the deadline, too: the peer may be behind strangers. The kernel keeps SOMAXCONN
  // connections, so more events than that are a flood.
  size_t late_events = SOMAXCONN + Socket::kMostArrivals;
  const DeadlineWait waiting(deadline);
  while (true) {
    std::optional<TcpExchange> peer;
    const bool handled = socket_->HandleEvent(peer);
    if (peer) return std::move(*peer);
    if (waiting.over() && (!handled || late_events-- == 0)) {
      const std::string refusal = socket_->LastRefusal();
      throw Error("accept", socket_->object(),
                  "no peer connected " + waiting.Within() + (refusal.empty() ? "" : "; " + refusal),
                  "Start the peer with this machine's name and this port");
    }
    if (!handled) waiting.ForEvents(socket_->events(), POLLIN);
  }
}

}  // namespace warpverbs::inline v0_2::host
