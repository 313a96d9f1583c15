#include "warpverbs/host/gid_pair.hpp"

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

namespace warpverbs::host {
namespace {

bool IsUsable(const GidEntry& here, const GidEntry& there) {
  return here.type == there.type &&
         (here.type == GidType::kInfiniBand || IsIpv4Mapped(here.gid) == IsIpv4Mapped(there.gid));
}

/// The higher the better. It is the same whichever side is asked.
auto Rank(const GidEntry& here, const GidEntry& there) {
  constexpr int kIpv4Subnet = 96 + 24, kIpv6Subnet = 64;
  const bool routable = !IsLinkLocal(here.gid) && !IsLinkLocal(there.gid);
  const bool ipv4 = IsIpv4Mapped(here.gid) && IsIpv4Mapped(there.gid);
  const int prefix = CommonPrefix(here.gid, there.gid);
  return std::tuple(here.type, routable, prefix >= (ipv4 ? kIpv4Subnet : kIpv6Subnet), ipv4, prefix);
}

/// No two pairs of one rank are alike in this: with x and y on both sides, x to x goes before x to y.
std::pair<std::array<uint8_t, 16>, std::array<uint8_t, 16>> Sorted(const GidPair& pair) {
  return std::minmax(pair.here.gid.raw, pair.there.gid.raw);
}

bool IsBetter(const GidPair& a, const GidPair& b) {
  const auto rank_a = Rank(a.here, a.there), rank_b = Rank(b.here, b.there);
  return rank_a != rank_b ? rank_a > rank_b : Sorted(a) < Sorted(b);
}

}  // namespace

std::optional<GidPair> BestPair(std::span<const GidEntry> here, std::span<const GidEntry> there) {
  std::optional<GidPair> best;
  for (const GidEntry& own : here) {
    for (const GidEntry& other : there) {
      const GidPair pair{own, other};
      if (IsUsable(own, other) && (!best || IsBetter(pair, *best))) best = pair;
    }
  }
  return best;
}

std::string DescribePair(const Gid& here, const Gid& there) {
  return "the best pair with the peer's " + ToString(there) + ", with " + BitsInCommon(here, there);
}

std::string InWords(std::span<const GidEntry> entries) {
  constexpr size_t kMost = 8;
  if (entries.empty()) return "none";
  std::string words;
  for (const GidEntry& entry : entries.first(std::min(entries.size(), kMost))) {
    words += (words.empty() ? "" : ", ") + std::string(ToString(entry.type)) + " " + ToString(entry.gid);
  }
  if (entries.size() > kMost) words += " and " + std::to_string(entries.size() - kMost) + " more";
  return words;
}

}  // namespace warpverbs::host
