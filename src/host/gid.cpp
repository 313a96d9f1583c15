#include "warpverbs/host/gid.hpp"

#include <arpa/inet.h>

#include <algorithm>

namespace warpverbs::host {

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

const GidEntry* BestGid(std::span<const GidEntry> entries) {
  const GidEntry* best = nullptr;
  for (const GidEntry& entry : entries) {
    if (!best || Score(entry) > Score(*best)) best = &entry;
  }
  return best;
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

}  // namespace warpverbs::host
