#include "ucma/host_ports.hpp"

#include <cstdio>
#include <random>
#include <string>
#include <string_view>

#include "uverbs/errors.hpp"
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

constexpr const char* kAllAddresses = "any";

std::string AddressName(const IpPort& address) {
  return address.IsWildcard() ? kAllAddresses : ToHex(address.ip);
}

uint16_t EphemeralPort() {
  constexpr uint16_t kFirst = 32768, kLast = 60999;
  static thread_local std::mt19937 random{std::random_device{}()};
  return static_cast<uint16_t>(std::uniform_int_distribution<uint32_t>(kFirst, kLast)(random));
}

}  // namespace

std::optional<PortClaim> PortClaim::Take(cm::PortSpace space, uint16_t port, const IpPort& address) {
  const std::string all = Name("port", space, port);
  Descriptor socket = TakeName(all + AddressName(address));
  if (!socket) return {};
  const bool taken = address.IsWildcard() ? ListNames(all).size() > 1 : !IsFree(all + kAllAddresses);
  if (taken) return {};
  return PortClaim(port, std::move(socket));
}

PortClaim PortClaim::TakeAny(cm::PortSpace space, const IpPort& address) {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (auto claim = Take(space, EphemeralPort(), address)) return std::move(*claim);
  }
  throw uverbs::Errno(EADDRNOTAVAIL, "every port is taken");
}

Descriptor Announce(cm::PortSpace space, const IpPort& address, const Gid& gid) {
  return TakeName(Name("listener", space, address.port) + AddressName(address) + '/' + ToHex(gid));
}

std::optional<Gid> FindAnnounced(cm::PortSpace space, const IpPort& address) {
  const auto found = FindName(Name("listener", space, address.port) + AddressName(address) + '/');
  if (!found) return {};
  return FromHex(found->rest);
}

}  // namespace softhca::ucma
