#include "wire/media/abstract_name.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace softhca {

Descriptor TakeName(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return socket;
  if (errno == EADDRINUSE) return Descriptor();
  throw std::runtime_error(std::string("cannot reserve addresses by a Unix socket: ") + std::strerror(errno));
}

}  // namespace softhca
