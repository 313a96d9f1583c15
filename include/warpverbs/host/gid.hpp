#pragma once

#include <array>
#include <cstdint>
#include <optional>
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
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

bool IsIpv4Mapped(const Gid& gid);
bool IsLinkLocal(const Gid& gid);  ///< of IPv6 and of IPv4: no router forwards it

/// Ranks a GID as a source address; the highest is the best guess for a peer somewhere on the fabric.
///
/// RoCE v2 goes before v1, which routers drop; then IPv4, which data centres route; then other routable
/// addresses; link-local last.
int Score(const GidEntry& entry);

/// How many leading bits two GIDs have in common, 0 to 128; of two IPv4 addresses 96 bits come before these.
int CommonPrefix(const Gid& a, const Gid& b);

/// The same in words: "28 of 32 bits in common", of two IPv4 addresses; of others of 128.
std::string BitsInCommon(const Gid& a, const Gid& b);

/// The entry with the highest score, the lowest index first; nullptr if there is none.
///
/// With a peer, RoCE v2 goes first too; then addresses of the peer's family, without which there is no way to
/// it; then those that are link-local if the peer's is and routable if it is; then the longest prefix in
/// common with the peer's: a GID table tells no netmasks, and of the prefix is the subnet most alike.
///
/// @param peer  an address of the peer; empty: it is somewhere on the fabric
const GidEntry* BestGid(std::span<const GidEntry> entries, const std::optional<Gid>& peer = {});

/// Why BestGid() has chosen an entry, as a phrase: "the best by type and reach".
std::string DescribeChoice(const GidEntry& best, const std::optional<Gid>& peer);

std::string ToString(const Gid& gid);  ///< "192.168.1.2" or "fe80::1"
const char* ToString(GidType type);

}  // namespace warpverbs::host
