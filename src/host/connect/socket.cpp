#include "connect/socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "device/handle.hpp"
#include "log/shortage.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

/// The result of getaddrinfo(): addresses, or an error.
struct Answer {
  int failure = 0;
  int error_number = 0;  // errno, if the failure is EAI_SYSTEM
  std::vector<SocketAddress> addresses;
};

Answer Ask(const TcpAddress& address, int flags) {
  addrinfo wish{};
  wish.ai_flags = AI_NUMERICSERV | flags;
  wish.ai_socktype = SOCK_STREAM;
  const std::string port = std::to_string(address.port);
  addrinfo* first = nullptr;
  Answer answer;
  answer.failure =
      getaddrinfo(address.host.empty() ? nullptr : address.host.c_str(), port.c_str(), &wish, &first);
  answer.error_number = errno;
  if (answer.failure != 0) return answer;
  const Handle<addrinfo, freeaddrinfo> owner(first);
  for (const addrinfo* one = first; one != nullptr; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress& found = answer.addresses.emplace_back();
    std::memcpy(&found.storage, one->ai_addr, one->ai_addrlen);
    found.bytes = one->ai_addrlen;
  }
  return answer;
}

/// Resolves in a thread that may outlive the call.
///
/// @param is_ready  waits for the future; false: not in time
template <class Ready>
Answer AskInTime(const TcpAddress& address, int flags, const Ready& is_ready) {
  std::packaged_task<Answer()> task([address, flags] { return Ask(address, flags); });
  std::future<Answer> answer = task.get_future();
  try {
    std::thread(std::move(task)).detach();
  } catch (const std::system_error& error) {
    throw Error::FromErrno(
        "start", "a thread that looks up '" + address.host + "'", error.code().value(),
        "Raise the limits on threads and memory (ulimit -u, ulimit -v), or pass the address "
        "in numbers");
  }
  if (is_ready(answer)) return answer.get();
  Answer none;
  none.failure = EAI_AGAIN;
  return none;
}

template <class Ready>
std::vector<SocketAddress> Find(const TcpAddress& address, int flags, const std::string& within,
                                const Ready& is_ready) {
  Answer answer = Ask(address, flags | AI_NUMERICHOST);  // needs no name server
  if (answer.failure == EAI_NONAME) answer = AskInTime(address, flags, is_ready);
  if (answer.failure == 0 && !answer.addresses.empty()) return std::move(answer.addresses);
  const std::string object = "the address of '" + address.host + "' " + within;
  constexpr char kRemedy[] = "Check the name, and the name servers of this machine";
  if (answer.failure == EAI_SYSTEM) throw Error::FromErrno("find", object, answer.error_number, kRemedy);
  throw Error("find", object, answer.failure == 0 ? "it has none" : gai_strerror(answer.failure), kRemedy);
}

/// Returns whether a socket is connected to itself. The kernel can do that if nobody listens on a port of the
/// range from which it picks local ports.
bool IsOwnPeer(int fd) {
  SocketAddress own, peer;
  if (getsockname(fd, own.get(), &own.bytes) != 0 || getpeername(fd, peer.get(), &peer.bytes) != 0)
    return false;
  return own.bytes == peer.bytes && std::memcmp(&own.storage, &peer.storage, own.bytes) == 0;
}

}  // namespace

uint16_t SocketAddress::port() const {
  return ntohs(family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(storage).sin6_port
                                    : reinterpret_cast<const sockaddr_in&>(storage).sin_port);
}

std::string SocketAddress::host() const {
  constexpr std::string_view kMapped = "::ffff:";
  char name[NI_MAXHOST];
  if (getnameinfo(get(), bytes, name, sizeof name, nullptr, 0, NI_NUMERICHOST) != 0) return "the peer";
  std::string text = name;
  if (text.starts_with(kMapped) && text.find('.') != std::string::npos) text = text.substr(kMapped.size());
  return text;
}

std::string SocketAddress::ToString() const { return host() + " port " + std::to_string(port()); }

std::string ToString(const TcpAddress& address) {
  return (address.host.empty() ? "port " : address.host + " port ") + std::to_string(address.port);
}

std::vector<SocketAddress> Resolve(const TcpAddress& peer, const DeadlineWait& waiting) {
  return Find(peer, 0, waiting.Within(), [&](const std::future<Answer>& answer) {
    return waiting.Until(
        [&] { return answer.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  });
}

std::vector<SocketAddress> ResolveOwn(const TcpAddress& address) {
  std::vector<SocketAddress> found =
      Find(address, AI_PASSIVE, "within 10 s", [](const std::future<Answer>& answer) {
        // In steps: of the time for which this process is stopped, only one counts.
        constexpr std::chrono::milliseconds kStep(100);
        for (int step = 0; step < 100; ++step) {
          if (answer.wait_for(kStep) == std::future_status::ready) return true;
        }
        return false;
      });
  if (address.host.empty()) {
    std::stable_partition(found.begin(), found.end(),
                          [](const SocketAddress& one) { return one.family() == AF_INET6; });
  }
  return found;
}

void SetOption(int socket, int level, int option, int value) {
  setsockopt(socket, level, option, &value, sizeof value);
}

bool WouldWait(int error) { return error == EAGAIN || error == EWOULDBLOCK; }
bool IsOwnFailure(int error) { return IsShortage(error) || error == EBADF || error == EINVAL; }

FileDescriptor MakeSocket(int family) {
  return FileDescriptor(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

FileDescriptor ConnectOnce(const SocketAddress& address, const DeadlineWait& waiting, int& error) {
  FileDescriptor socket = MakeSocket(address.family());
  const auto fail = [&error](int error_number) {
    error = error_number;
    return FileDescriptor();
  };
  if (!socket) return fail(errno);
  if (connect(socket.get(), address.get(), address.bytes) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return fail(errno);
    if (!waiting.ForEvents(socket.get(), POLLOUT)) return fail(ETIMEDOUT);
    int result = 0;
    socklen_t bytes = sizeof result;
    if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &result, &bytes) != 0) return fail(errno);
    if (result != 0) return fail(result);
  }
  if (IsOwnPeer(socket.get())) return fail(ECONNREFUSED);
  return socket;
}

}  // namespace warpverbs::inline v0_2::host
