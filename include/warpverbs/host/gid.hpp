#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

namespace warpverbs::host {

/// A port's address: an IPv6 address, or an IPv4 address mapped into one.
struct Gid {
  std::array<uint8_t, 16> raw{};
  friend bool operator==(const Gid&, const Gid&) = default;
};

/// How packets from a GID look on the wire.
enum class GidType : uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

/// One entry of a port's GID table.
struct GidEntry {
  Gid gid{};
  uint32_t index = 0;  ///< in the port's table, which has holes
  GidType type = GidType::kInfiniBand;
};

bool IsIpv4Mapped(const Gid& gid);
bool IsLinkLocal(const Gid& gid);  ///< of IPv6 and of IPv4: no router forwards it

/// Ranks a GID as a source address; the highest is the best guess for a peer somewhere on the fabric.
///
/// RoCE v2 goes before v1, which routers drop; then IPv4, which data centres route; then other routable
/// addresses; link-local last.
int Score(const GidEntry& entry);

/// The entry with the highest score, the lowest index first; nullptr if there is none.
const GidEntry* BestGid(std::span<const GidEntry> entries);

std::string ToString(const Gid& gid);  ///< "192.168.1.2" or "fe80::1"
const char* ToString(GidType type);

}  // namespace warpverbs::host
