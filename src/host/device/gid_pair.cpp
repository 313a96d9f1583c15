#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "warpverbs/host/gid.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

bool IsUsable(const GidEntry& here, const GidEntry& there) {
  return here.type == there.type &&
         (here.type == GidType::kInfiniBand || IsIpv4Mapped(here.gid) == IsIpv4Mapped(there.gid));
}

/// Ranks a pair; higher is better. Both sides compute the same rank.
auto Rank(const GidPair& pair, bool same_port) {
  constexpr int kIpv4Subnet = 96 + 24, kIpv6Subnet = 64;
  const Gid &here = pair.here.gid, &there = pair.there.gid;
  const bool routable = !IsLinkLocal(here) && !IsLinkLocal(there);
  const bool ipv4 = IsIpv4Mapped(here) && IsIpv4Mapped(there);
  const int prefix = CommonPrefix(here, there);
  // If two ports have the same address, each reaches only itself through it.
  return std::tuple(same_port || here != there, pair.here.type, routable,
                    prefix >= (ipv4 ? kIpv4Subnet : kIpv6Subnet), ipv4, prefix);
}

using Address = std::pair<GidType, std::array<uint8_t, 16>>;

std::set<Address> AddressesOf(std::span<const GidEntry> entries) {
  std::set<Address> addresses;
  for (const GidEntry& entry : entries) addresses.emplace(entry.type, entry.gid.raw);
  return addresses;
}

}  // namespace

std::optional<GidPair> BestPair(std::span<const GidEntry> here, std::span<const GidEntry> there) {
  const std::set<Address> ours = AddressesOf(here), theirs = AddressesOf(there);
  // Both sides break ties by the addresses of the same side.
  const auto order = [is_first = ours < theirs](const GidPair& pair) {
    const auto &a = pair.here.gid.raw, &b = pair.there.gid.raw;
    return is_first ? std::pair(a, b) : std::pair(b, a);
  };
  const auto is_better = [&, same_port = ours == theirs](const GidPair& a, const GidPair& b) {
    const auto rank_a = Rank(a, same_port), rank_b = Rank(b, same_port);
    return rank_a != rank_b ? rank_a > rank_b : order(a) < order(b);
  };
  std::optional<GidPair> best;
  for (const GidEntry& own : here) {
    for (const GidEntry& other : there) {
      const GidPair pair{own, other};
      if (IsUsable(own, other) && (!best || is_better(pair, *best))) best = pair;
    }
  }
  return best;
}

std::string DescribePair(const Gid& here, const Gid& there) {
  return "the best pair with the peer's " + ToString(there) + ", with " + BitsInCommon(here, there);
}

std::string Describe(std::span<const GidEntry> entries) {
  constexpr size_t kMaxListed = 8;
  if (entries.empty()) return "none";
  std::string text;
  for (const GidEntry& entry : entries.first(std::min(entries.size(), kMaxListed))) {
    text += (text.empty() ? "" : ", ") + std::string(ToString(entry.type)) + " " + ToString(entry.gid);
  }
  if (entries.size() > kMaxListed) text += " and " + std::to_string(entries.size() - kMaxListed) + " more";
  return text;
}

}  // namespace warpverbs::inline v0_2::host
