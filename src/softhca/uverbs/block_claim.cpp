#include "uverbs/block_claim.hpp"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string>

#include "wire/address_block.hpp"

namespace softhca {
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
