#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "warpverbs/host/gid.hpp"

namespace warpverbs::host {

/// From where two ports send to each other.
struct GidPair {
  GidEntry here{}, there{};
};

/// Chooses the best pair of the GIDs of two ports; empty if none can carry packets.
///
/// Both are of one type and, on Ethernet, of one family. RoCE v2 goes before v1, which routers drop; then two
/// routable addresses, link-local ones last; then those that seem to share a subnet (24 bits of IPv4 in
/// common, or 64); then IPv4; then the longest prefix in common; then the lowest addresses. Of equal entries
/// the first counts. An address of both comes last, unless the lists are the same, as those of one port are.
///
/// The other side comes to the same pair by the same lists, the other way round.
std::optional<GidPair> BestPair(std::span<const GidEntry> here, std::span<const GidEntry> there);

/// Why BestPair() has chosen, as a phrase: "the best pair with the peer's 10.1.2.3, with 28 of 32 bits in
/// common".
std::string DescribePair(const Gid& here, const Gid& there);

/// GIDs in words, at most eight: "RoCE v1 fe80::1, RoCE v2 fe80::1"; "none".
std::string InWords(std::span<const GidEntry> entries);

}  // namespace warpverbs::host
