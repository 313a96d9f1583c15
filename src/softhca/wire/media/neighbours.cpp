#include "wire/media/neighbours.hpp"

#include <algorithm>
#include <array>

#include "wire/byte_order.hpp"
#include "wire/frame.hpp"
#include "wire/media/socket.hpp"

namespace softhca {
namespace {

constexpr size_t kArpBytes = 28;
constexpr uint16_t kArpRequest = 1, kArpReply = 2;

constexpr size_t kIpv6Bytes = 40, kDiscoveryBytes = 32;  // with one option, an Ethernet address
constexpr uint8_t kIcmpv6 = 58;
constexpr uint8_t kSolicitation = 135, kAdvertisement = 136;
constexpr uint8_t kSourceOption = 1, kTargetOption = 2;
constexpr uint32_t kSolicitedOverride = 0x60000000;

constexpr Mac kBroadcast{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

Gid Ipv4Gid(std::span<const uint8_t> address) {
  Gid gid{};
  gid[10] = gid[11] = 0xff;
  std::copy(address.begin(), address.end(), gid.begin() + 12);
  return gid;
}

Mac MacAt(std::span<const uint8_t> bytes) {
  Mac mac{};
  std::copy_n(bytes.begin(), std::min(bytes.size(), mac.size()), mac.begin());
  return mac;
}

std::array<uint8_t, kEthernetHeaderBytes + kArpBytes> ArpFrame(uint16_t operation, const WireAddress& from,
                                                               const Mac& to_mac, const Gid& to) {
  std::array<uint8_t, kEthernetHeaderBytes + kArpBytes> frame;
  FieldWriter out(frame);
  out.Put(operation == kArpRequest ? kBroadcast : to_mac);
  out.Put(from.mac);
  out.Put<2>(kEtherTypeArp);
  out.Put<2>(1);  // Ethernet
  out.Put<2>(kEtherTypeIpv4);
  out.Put<1>(sizeof(Mac));
  out.Put<1>(4);
  out.Put<2>(operation);
  out.Put(from.mac);
  out.Put(std::span(from.gid).last<4>());
  out.Put(to_mac);
  out.Put(std::span(to).last<4>());
  return frame;
}

/// Computes ICMPv6's checksum, which covers the IPv6 addresses too.
///
/// @param packet  from the IPv6 header on, with a checksum field of 0
uint16_t Checksum(std::span<const uint8_t> packet) {
  uint64_t sum = packet.size() - kIpv6Bytes + kIcmpv6;
  FieldReader in(packet.subspan(8));  // from the source address on
  while (!in.rest().empty()) sum += in.Take<2>();
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

std::array<uint8_t, kEthernetHeaderBytes + kIpv6Bytes + kDiscoveryBytes> DiscoveryFrame(
    uint8_t type, const WireAddress& from, const Mac& to_mac, const Gid& to, const Gid& about) {
  std::array<uint8_t, kEthernetHeaderBytes + kIpv6Bytes + kDiscoveryBytes> frame;
  FieldWriter out(frame);
  out.Put(to_mac);
  out.Put(from.mac);
  out.Put<2>(kEtherTypeIpv6);
  out.Put<4>(uint32_t{6} << 28);
  out.Put<2>(kDiscoveryBytes);
  out.Put<1>(kIcmpv6);
  out.Put<1>(255);  // hop limit: proves that the packet was not forwarded
  out.Put(from.gid);
  out.Put(to);
  out.Put<1>(type);
  out.Put<1>(0);
  const size_t checksum_at = out.written();
  out.Put<2>(0);
  out.Put<4>(type == kAdvertisement ? kSolicitedOverride : 0);
  out.Put(about);
  out.Put<1>(type == kAdvertisement ? kTargetOption : kSourceOption);
  out.Put<1>(1);  // length, in units of 8 bytes
  out.Put(from.mac);
  const auto packet = std::span(frame).subspan(kEthernetHeaderBytes);
  FieldWriter(std::span(frame).subspan(checksum_at)).Put<2>(Checksum(packet));
  return frame;
}

/// Returns the multicast group that the owner of an address listens to.
Gid SolicitedNode(const Gid& gid) {
  Gid group{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff};
  std::copy(gid.end() - 3, gid.end(), group.end() - 3);
  return group;
}

}  // namespace

const WireAddress* Neighbours::FindOwn(const Gid& gid) const {
  const auto found =
      std::find_if(own_.begin(), own_.end(), [&](const WireAddress& own) { return own.gid == gid; });
  return found == own_.end() ? nullptr : &*found;
}

std::optional<Mac> Neighbours::Find(const Gid& gid) const {
  const auto found = known_.find(gid);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

void Neighbours::Ask(const Gid& gid) const {
  const auto from = std::find_if(own_.begin(), own_.end(), [&](const WireAddress& own) {
    return IsIpv4(own.gid) == IsIpv4(gid) && IsLinkLocal(own.gid) == IsLinkLocal(gid);
  });
  if (from == own_.end()) return;  // no address to ask from
  if (IsIpv4(gid)) return send_(ArpFrame(kArpRequest, *from, Mac{}, gid));
  const Gid group = SolicitedNode(gid);
  const Mac group_mac{0x33, 0x33, group[12], group[13], group[14], group[15]};
  send_(DiscoveryFrame(kSolicitation, *from, group_mac, group, gid));
}

void Neighbours::Learn(const Gid& gid, const Mac& mac) {
  if (known_.size() == kMaxKnown && !known_.contains(gid)) known_.clear();
  known_[gid] = mac;
}

bool Neighbours::Take(std::span<const uint8_t> frame) {
  const auto body = frame.subspan(std::min(frame.size(), kEthernetHeaderBytes));
  if (EtherType(frame) == kEtherTypeArp) {
    TakeArp(body);
    return true;
  }
  if (EtherType(frame) == kEtherTypeIpv6 && body.size() >= kIpv6Bytes && body[6] == kIcmpv6) {
    TakeDiscovery(body);
    return true;
  }
  return false;
}

void Neighbours::TakeArp(std::span<const uint8_t> body) {
  FieldReader in(body);
  in.Take(6);
  const auto operation = static_cast<uint16_t>(in.Take<2>());
  const Mac sender_mac = MacAt(in.Take(6));
  const auto sender = in.Take(4);
  in.Take(6);
  const auto target = in.Take(4);
  if (in.cut_short()) return;
  Learn(Ipv4Gid(sender), sender_mac);
  const WireAddress* const own = FindOwn(Ipv4Gid(target));
  if (operation == kArpRequest && own != nullptr) {
    send_(ArpFrame(kArpReply, *own, sender_mac, Ipv4Gid(sender)));
  }
}

void Neighbours::TakeDiscovery(std::span<const uint8_t> packet) {
  FieldReader in(packet.subspan(8));
  Gid source{}, about{};
  std::ranges::copy(in.Take(16), source.begin());
  in.Take(16);
  const auto type = static_cast<uint8_t>(in.Take<1>());
  in.Take(7);
  std::ranges::copy(in.Take(16), about.begin());
  in.Take(2);
  const Mac mac = MacAt(in.Take(6));
  if (in.cut_short() || (type != kSolicitation && type != kAdvertisement)) return;
  Learn(type == kSolicitation ? source : about, mac);
  const WireAddress* const own = FindOwn(about);
  if (type == kSolicitation && own != nullptr) {
    send_(DiscoveryFrame(kAdvertisement, *own, mac, source, about));
  }
}

}  // namespace softhca
