#include "wire/media/abstract_name.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace softhca {
namespace {

struct Address {
  explicit Address(const std::string& name)
      : bytes(static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) {
    name.copy(path.sun_path + 1, sizeof path.sun_path - 1);
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&path); }

  sockaddr_un path{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t bytes;
};

Descriptor MakeSocket() { return Descriptor(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)); }

}  // namespace

std::string OwnName(const std::string& rest) { return "softhca/" + std::to_string(getuid()) + "/" + rest; }

Descriptor TakeName(const std::string& name) {
  Descriptor socket = MakeSocket();
  const Address address(name);
  if (bind(socket.get(), address.get(), address.bytes) == 0) return socket;
  if (errno == EADDRINUSE) return Descriptor();
  throw std::runtime_error(std::string("cannot reserve addresses with a Unix socket: ") +
                           std::strerror(errno));
}

std::vector<TakenName> ListNames(const std::string& prefix) {
  const std::string path = '@' + prefix;
  std::vector<TakenName> names;
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);) {
    const size_t at = line.find(path);
    if (at == std::string::npos) continue;
    TakenName found{.rest = line.substr(at + path.size())};
    std::istringstream words(line);
    std::string other;
    for (int i = 0; i < 6; ++i) words >> other;
    if (words >> found.holder) names.push_back(std::move(found));
  }
  return names;
}

std::optional<TakenName> FindName(const std::string& prefix) {
  const std::vector<TakenName> names = ListNames(prefix);
  return names.empty() ? std::nullopt : std::optional(names.front());
}

bool IsFree(const std::string& name) {
  const Descriptor socket = MakeSocket();
  const Address address(name);
  return connect(socket.get(), address.get(), address.bytes) != 0 && errno == ECONNREFUSED;
}

}  // namespace softhca
