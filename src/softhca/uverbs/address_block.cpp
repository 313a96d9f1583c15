#include "uverbs/address_block.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <stdexcept>
#include <string>

namespace softhca {
namespace address_block {

Mac MacOf(uint32_t block, uint32_t device, uint32_t port) {
  return {0x02,
          0x53,
          0x48,
          static_cast<uint8_t>(block >> 8),
          static_cast<uint8_t>(block),
          static_cast<uint8_t>(device << 4 | port)};
}

Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port) {
  const uint32_t host = block << 5 | device << 1 | (port - 1);
  const uint8_t bytes[] = {0xff, 0xff, 127, 83, static_cast<uint8_t>(host >> 8), static_cast<uint8_t>(host)};
  Gid gid{};
  std::copy(std::begin(bytes), std::end(bytes), gid.end() - std::size(bytes));
  return gid;
}

}  // namespace address_block

namespace {

/// Takes an abstract name of the network namespace.
///
/// @return  none if somebody has it
Descriptor TakeName(const std::string& name) {
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return socket;
  if (errno == EADDRINUSE) return Descriptor();
  throw std::runtime_error(std::string("cannot reserve addresses by a Unix socket: ") + std::strerror(errno));
}

Descriptor TakeReservation(uint32_t block) { return TakeName("softhca/block/" + std::to_string(block)); }
Descriptor TakeUse(uint32_t block) { return TakeName("softhca/block/" + std::to_string(block) + "/used"); }

}  // namespace

BlockClaim BlockClaim::Reserve() {
  using namespace address_block;
  for (uint32_t block = kFirst; block <= kLast; ++block) {
    Descriptor reservation = TakeReservation(block);
    // A process may use it whose launcher has died.
    if (reservation && TakeUse(block)) return {block, std::move(reservation)};
  }
  throw std::runtime_error("all " + std::to_string(kLast - kFirst + 1) +
                           " blocks of addresses are taken: end programs that run on softhca");
}

BlockClaim BlockClaim::Use(uint32_t reserved) {
  if (Descriptor use = TakeUse(reserved)) return {reserved, std::move(use)};
  return Reserve();
}

}  // namespace softhca
