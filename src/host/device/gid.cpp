#include "warpverbs/host/gid.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <bit>
#include <tuple>

namespace warpverbs::inline v0_2::host {
namespace {

/// Ranks a GID as a source address for one peer: type, family, scope, prefix.
auto ScoreFor(const Gid& peer, const GidEntry& entry) {
  return std::tuple(entry.type == GidType::kRoceV2, IsIpv4Mapped(entry.gid) == IsIpv4Mapped(peer),
                    IsLinkLocal(entry.gid) == IsLinkLocal(peer), CommonPrefix(entry.gid, peer));
}

bool IsBetter(const GidEntry& a, const GidEntry& b, const std::optional<Gid>& peer) {
  return peer ? ScoreFor(*peer, a) > ScoreFor(*peer, b) : Score(a) > Score(b);
}

}  // namespace

bool IsIpv4Mapped(const Gid& gid) {
  return std::all_of(gid.raw.begin(), gid.raw.begin() + 10, [](uint8_t byte) { return byte == 0; }) &&
         gid.raw[10] == 0xff && gid.raw[11] == 0xff;
}

bool IsLinkLocal(const Gid& gid) {
  if (IsIpv4Mapped(gid)) return gid.raw[12] == 169 && gid.raw[13] == 254;
  return gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80;
}

int Score(const GidEntry& entry) {
  const int reach = IsLinkLocal(entry.gid) ? 0 : IsIpv4Mapped(entry.gid) ? 2 : 1;
  return (entry.type == GidType::kRoceV2 ? 3 : 0) + reach;
}

int CommonPrefix(const Gid& a, const Gid& b) {
  for (size_t i = 0; i < a.raw.size(); ++i) {
    const auto differing = static_cast<uint8_t>(a.raw[i] ^ b.raw[i]);
    if (differing != 0) return static_cast<int>(8 * i) + std::countl_zero(differing);
  }
  return static_cast<int>(8 * a.raw.size());
}

std::string BitsInCommon(const Gid& a, const Gid& b) {
  const bool ipv4 = IsIpv4Mapped(a) && IsIpv4Mapped(b);
  return std::to_string(CommonPrefix(a, b) - (ipv4 ? 96 : 0)) + " of " + (ipv4 ? "32" : "128") +
         " bits in common";
}

const GidEntry* BestGid(std::span<const GidEntry> entries, const std::optional<Gid>& peer) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : entries) {
    if (!best || IsBetter(entry, *best, peer)) best = &entry;
  }
  return best;
}

std::string DescribeChoice(const GidEntry& best, const std::optional<Gid>& peer) {
  if (!peer) return "the best by type and reach";
  const std::string to = "the best for the peer's " + ToString(*peer);
  if (IsIpv4Mapped(best.gid) != IsIpv4Mapped(*peer)) return to + ", although its address family differs";
  return to + ", with " + BitsInCommon(best.gid, *peer);
}

std::string ToString(const Gid& gid) {
  char text[INET6_ADDRSTRLEN];
  const bool ipv4 = IsIpv4Mapped(gid);
  return inet_ntop(ipv4 ? AF_INET : AF_INET6, gid.raw.data() + (ipv4 ? 12 : 0), text, sizeof(text));
}

const char* ToString(GidType type) {
  switch (type) {
    case GidType::kInfiniBand:
      return "InfiniBand";
    case GidType::kRoceV1:
      return "RoCE v1";
    case GidType::kRoceV2:
      return "RoCE v2";
  }
  return "unknown";
}

const char* ToString(LinkLayer link_layer) {
  return link_layer == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand";
}

}  // namespace warpverbs::inline v0_2::host
