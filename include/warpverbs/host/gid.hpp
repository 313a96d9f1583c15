#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };
WARPVERBS_EXPORT const char* ToString(LinkLayer link_layer);

/// A port's address: an IPv6 address, or an IPv4 address mapped into one.
struct Gid {
  std::array<uint8_t, 16> raw{};
  friend bool operator==(const Gid&, const Gid&) = default;
};

/// The wire format of packets from a GID.
enum class GidType : uint8_t { kInfiniBand = 0, kRoceV1 = 1, kRoceV2 = 2 };

/// One entry of a port's GID table.
struct GidEntry {
  Gid gid{};
  uint32_t index = 0;  ///< in the port's table, which has holes
  GidType type = GidType::kInfiniBand;
  friend bool operator==(const GidEntry&, const GidEntry&) = default;
};

WARPVERBS_EXPORT bool IsIpv4Mapped(const Gid& gid);
WARPVERBS_EXPORT bool IsLinkLocal(const Gid& gid);  ///< IPv6 or IPv4; no router forwards such an address

/// Ranks a GID as a source address; the highest score is the best guess for a peer anywhere on the fabric.
///
/// RoCE v2 ranks above v1, which routers drop; then IPv4, which data centres route; then other routable
/// addresses; link-local addresses last.
WARPVERBS_EXPORT int Score(const GidEntry& entry);

/// Counts the leading bits that two GIDs share, 0 to 128. Two IPv4 addresses share at least 96.
WARPVERBS_EXPORT int CommonPrefix(const Gid& a, const Gid& b);

/// Describes the common prefix: "28 of 32 bits in common" for two IPv4 addresses, of 128 for others.
WARPVERBS_EXPORT std::string BitsInCommon(const Gid& a, const Gid& b);

/// Returns the entry with the highest score, the lowest index first; nullptr if there are none.
///
/// With a peer, RoCE v2 also ranks first. Then come addresses of the peer's family, since no packet crosses
/// families; then link-local addresses if the peer's is link-local, routable ones if it is routable; then the
/// longest common prefix, because a GID table has no netmasks and the prefix is the best hint of a subnet.
///
/// @param peer  an address of the peer; empty: it may be anywhere on the fabric
WARPVERBS_EXPORT const GidEntry* BestGid(std::span<const GidEntry> entries,
                                         const std::optional<Gid>& peer = {});

/// Explains why BestGid() chose an entry, as a phrase: "the best by type and reach".
WARPVERBS_EXPORT std::string DescribeChoice(const GidEntry& best, const std::optional<Gid>& peer);

/// The addresses by which two ports send to each other.
struct GidPair {
  GidEntry here{}, there{};
};

/// Chooses the best pair of two ports' GIDs; empty if none can carry packets.
///
/// Both are of one type and, on Ethernet, of one family. RoCE v2 ranks above v1, which routers drop; then two
/// routable addresses, link-local ones last; then pairs that seem to share a subnet (24 common bits of IPv4,
/// otherwise 64); then IPv4; then the longest common prefix; then the lowest addresses. Of equal entries the
/// first counts. One address on both sides ranks last, unless the lists are equal, as those of one port are.
///
/// The other side, given the same two lists, chooses the same pair.
WARPVERBS_EXPORT std::optional<GidPair> BestPair(std::span<const GidEntry> here,
                                                 std::span<const GidEntry> there);

/// Explains why BestPair() chose, as a phrase: "the best pair with the peer's 10.1.2.3, with 28 of 32 bits in
/// common".
WARPVERBS_EXPORT std::string DescribePair(const Gid& here, const Gid& there);

/// Lists at most eight GIDs: "RoCE v1 fe80::1, RoCE v2 fe80::1"; "none".
WARPVERBS_EXPORT std::string Describe(std::span<const GidEntry> entries);

WARPVERBS_EXPORT std::string ToString(const Gid& gid);  ///< "192.168.1.2" or "fe80::1"
WARPVERBS_EXPORT const char* ToString(GidType type);

}  // namespace warpverbs::inline v0_2::host
