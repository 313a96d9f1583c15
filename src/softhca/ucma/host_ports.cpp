#include "ucma/host_ports.hpp"

#include <cerrno>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>

#include "uverbs/errors.hpp"
#include "wire/frame.hpp"
#include "wire/media/abstract_name.hpp"

namespace softhca::ucma {
namespace {

std::string ToHex(const Gid& gid) {
  std::string text;
  for (const uint8_t byte : gid) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", unsigned{byte});
    text += digits;
  }
  return text;
}

std::optional<Gid> FromHex(std::string_view text) {
  Gid gid{};
  if (text.size() != 2 * gid.size()) return {};
  for (size_t i = 0; i < gid.size(); ++i) {
    unsigned byte = 0;
    if (std::sscanf(text.data() + 2 * i, "%2x", &byte) != 1) return {};
    gid[i] = static_cast<uint8_t>(byte);
  }
  return gid;
}

std::string Name(const char* what, cm::PortSpace space, uint16_t port) {
  return OwnName(what) + '/' + std::to_string(static_cast<unsigned>(space)) + '/' + std::to_string(port) +
         '/';
}

std::string AnyName(bool ipv4) { return ipv4 ? "any4" : "any6"; }

/// Returns the names of the addresses that a program binds.
std::vector<std::string> AddressNames(const IpPort& address, Families families) {
  if (!address.IsWildcard()) return {ToHex(address.ip)};
  if (families == Families::kBoth) return {AnyName(true), AnyName(false)};
  return {AnyName(IsIpv4(address.ip))};
}

/// Returns whether a port of one address is taken where all addresses of some families are asked for.
bool IsTakenAtOneAddress(const std::string& all, const IpPort& address, Families families) {
  constexpr int kLooks = 3;  // a list may miss a name
  for (int look = 0; look < kLooks; ++look) {
    for (const TakenName& name : ListNames(all)) {
      const auto taken = FromHex(name.rest);
      if (taken && (families == Families::kBoth || IsIpv4(*taken) == IsIpv4(address.ip))) return true;
    }
  }
  return false;
}

uint16_t EphemeralPort() {
  constexpr uint16_t kFirst = 32768, kLast = 60999;
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<uint16_t>(std::uniform_int_distribution<uint32_t>(kFirst, kLast)(random));
}

}  // namespace

PortClaim PortClaim::Take(cm::PortSpace space, uint16_t port, const IpPort& address, Families families) {
  const std::string all = Name("port", space, port);
  const bool is_wildcard = address.IsWildcard();
  std::vector<Descriptor> sockets;
  for (const std::string& name : AddressNames(address, families)) {
    sockets.push_back(TakeName(all + name));
    if (!sockets.back()) return PortClaim(is_wildcard ? EADDRNOTAVAIL : EADDRINUSE);
  }
  const bool conflicts =
      is_wildcard ? IsTakenAtOneAddress(all, address, families) : !IsFree(all + AnyName(IsIpv4(address.ip)));
  if (conflicts) return PortClaim(EADDRNOTAVAIL);
  return PortClaim(port, std::move(sockets));
}

PortClaim PortClaim::TakeAny(cm::PortSpace space, const IpPort& address, Families families) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    PortClaim claim = Take(space, EphemeralPort(), address, families);
    if (claim.port() != 0) return claim;
  }
  throw uverbs::Errno(EADDRNOTAVAIL, "every port is taken");
}

std::vector<Descriptor> Announce(cm::PortSpace space, const IpPort& address, Families families,
                                 const Gid& gid) {
  std::vector<Descriptor> sockets;
  for (const std::string& name : AddressNames(address, families))
    sockets.push_back(TakeName(Name("listener", space, address.port) + name + '/' + ToHex(gid)));
  return sockets;
}

std::optional<Gid> FindAnnounced(cm::PortSpace space, const IpPort& address) {
  const std::string name = AddressNames(address, Families::kOwn).front();
  const auto found = FindName(Name("listener", space, address.port) + name + '/');
  if (!found) return {};
  return FromHex(found->rest);
}

}  // namespace softhca::ucma
