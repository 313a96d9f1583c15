#include "wire/address_block.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>

#include "wire/frame.hpp"
#include "wire/media/abstract_name.hpp"
#include "wire/media/neighbour_medium.hpp"
#include "wire/media/socket.hpp"

namespace softhca::address_block {
namespace {

constexpr std::array<uint8_t, 14> kNetwork{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 83};

/// Returns the address's part after the network prefix.
std::optional<uint32_t> HostOf(const Gid& ipv4) {
  if (!std::equal(kNetwork.begin(), kNetwork.end(), ipv4.begin())) return std::nullopt;
  return uint32_t{ipv4[14]} << 8 | ipv4[15];
}

Mac MacOfHost(uint32_t host) { return MacOf(host >> 5, host >> 1 & 15, (host & 1) + 1); }

}  // namespace

Mac MacOf(uint32_t block, uint32_t device, uint32_t port) {
  return {0x02,
          0x53,
          0x48,
          static_cast<uint8_t>(block >> 8),
          static_cast<uint8_t>(block),
          static_cast<uint8_t>(device << 4 | port)};
}

Gid Ipv4GidOf(uint32_t block, uint32_t device, uint32_t port) {
  const uint16_t host = LidOf(block, device, port);
  Gid gid{};
  std::copy(kNetwork.begin(), kNetwork.end(), gid.begin());
  gid[14] = static_cast<uint8_t>(host >> 8);
  gid[15] = static_cast<uint8_t>(host);
  return gid;
}

uint16_t LidOf(uint32_t block, uint32_t device, uint32_t port) {
  return static_cast<uint16_t>(block << 5 | device << 1 | (port - 1));
}

std::optional<uint32_t> BlockOf(const Gid& ipv4) {
  const auto host = HostOf(ipv4);
  if (!host) return std::nullopt;
  return *host >> 5;
}

std::optional<Mac> MacOf(const Gid& ipv4) {
  const auto host = HostOf(ipv4);
  return host ? std::optional(MacOfHost(*host)) : std::nullopt;
}

Mac MacOfLid(uint16_t lid) { return MacOfHost(lid); }

}  // namespace softhca::address_block

namespace softhca {
namespace {

std::string NameOf(uint32_t block) { return OwnName("block/" + std::to_string(block)); }
std::string UseOf(uint32_t block) { return NameOf(block) + "/used"; }
Descriptor TakeReservation(uint32_t block) { return TakeName(NameOf(block)); }
Descriptor TakeUse(uint32_t block) { return TakeName(UseOf(block)); }

/// Returns the blocks that other users have claimed, or pretend to have claimed.
std::set<uint32_t> BlocksOfOthers() {
  std::set<uint32_t> blocks;
  for (const TakenName& name : ListNames("softhca/")) {
    unsigned user = 0, block = 0;
    if (std::sscanf(name.rest.c_str(), "%u/block/%u", &user, &block) == 2 && user != getuid())
      blocks.insert(block);
  }
  return blocks;
}

/// Returns whether no socket is bound to a block's addresses: to a MAC's name, or to the RoCE port of an IP
/// address. A forked child keeps the sockets of a NIC whose process is gone.
bool IsUnbound(uint32_t block) {
  using namespace address_block;
  for (uint32_t device = 0; device < kDevices; ++device) {
    for (uint32_t port = 1; port <= kPorts; ++port) {
      if (!IsFree(NeighbourMedium::NameOf(MacOf(block, device, port)))) return false;
      const SocketAddress at = ToSocketAddress(Ipv4GidOf(block, device, port), kRoceUdpPort);
      const Descriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      if (socket && bind(socket.get(), &at.any, at.bytes) != 0 && errno == EADDRINUSE) return false;
    }
  }
  return true;
}

}  // namespace

BlockClaim BlockClaim::Reserve() {
  using namespace address_block;
  constexpr uint32_t kBlocks = kLast - kFirst + 1;
  // The users of a host look from different blocks on, and avoid each other's. A user that claims all blocks
  // keeps nobody from starting: then its claims do not count. Nor does it count that addresses are bound if
  // those of all blocks are: not every network needs them.
  const uint32_t start = getuid() * 89 % (kBlocks / 2);
  for (const auto& [spares_others, spares_bound] : {std::pair(true, true), {false, true}, {false, false}}) {
    const std::set<uint32_t> others = spares_others ? BlocksOfOthers() : std::set<uint32_t>{};
    for (uint32_t i = 0; i < kBlocks; ++i) {
      const uint32_t block = kFirst + (start + i) % kBlocks;
      if (others.contains(block)) continue;
      Descriptor reservation = TakeReservation(block);
      // A process whose launcher has died may still use the block.
      if (!reservation || !TakeUse(block) || (spares_bound && !IsUnbound(block))) continue;
      // Another user may have claimed it at the same time.
      if (spares_others && BlocksOfOthers().contains(block)) continue;
      return {block, std::move(reservation)};
    }
  }
  throw std::runtime_error("all " + std::to_string(kBlocks) +
                           " blocks of addresses are taken; end some programs that run on softhca");
}

BlockClaim BlockClaim::Use(uint32_t reserved) {
  Descriptor use = TakeUse(reserved);
  if (use && IsUnbound(reserved)) return {reserved, std::move(use)};
  return Reserve();
}

bool BlockClaim::IsOfAnotherUser(uint32_t block) { return BlocksOfOthers().contains(block); }

std::optional<uint64_t> BlockClaim::UserOf(uint32_t block) {
  const std::string use = "/block/" + std::to_string(block) + "/used";
  constexpr int kLooks = 3;  // a list may miss a name
  for (int look = 0; look < kLooks; ++look) {
    std::optional<uint64_t> oldest;  // another user may claim the same block later
    for (const TakenName& name : ListNames("softhca/")) {
      if (name.rest.ends_with(use)) oldest = std::min(oldest.value_or(UINT64_MAX), name.holder);
    }
    if (oldest) return oldest;
  }
  return IsFree(UseOf(block)) ? std::optional<uint64_t>(0) : std::nullopt;
}

}  // namespace softhca
