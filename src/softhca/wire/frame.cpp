#include "wire/frame.hpp"

#include <algorithm>

#include "wire/byte_order.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

constexpr size_t kEthernetBytes = 14, kIpv4Bytes = 20, kIpv6Bytes = 40;
constexpr uint16_t kIpv4Type = 0x0800, kIpv6Type = 0x86dd, kRoceV1Type = 0x8915;
constexpr uint8_t kUdpProtocol = 17;
constexpr uint8_t kTransportFollowsGrh = 0x1b;
constexpr uint16_t kDontFragment = 0x4000;
constexpr std::array<uint8_t, 12> kIpv4Prefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool TravelsOverIpv4(const Flow& flow) {
  return flow.version == mlx5::RoceVersion::kV2 && IsIpv4(flow.destination);
}

uint16_t EtherType(const Flow& flow) {
  if (flow.version == mlx5::RoceVersion::kV1) return kRoceV1Type;
  return TravelsOverIpv4(flow) ? kIpv4Type : kIpv6Type;
}

std::span<const uint8_t> Ipv4Of(const Gid& gid) { return std::span(gid).last<4>(); }

Gid GidOf(std::span<const uint8_t> address) {
  Gid gid{};
  if (address.size() == 4) std::copy(kIpv4Prefix.begin(), kIpv4Prefix.end(), gid.begin());
  std::copy(address.begin(), address.end(), gid.end() - static_cast<ptrdiff_t>(address.size()));
  return gid;
}

/// @source  RFC 1071
uint16_t InternetChecksum(std::span<const uint8_t> header) {
  FieldReader in(header);
  uint64_t sum = 0;
  while (!in.rest().empty()) sum += in.Take<2>();
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint16_t>(~sum);
}

void PutIpv4(const Flow& flow, size_t bytes_behind, std::span<uint8_t> out) {
  FieldWriter header(out);
  header.Put<1>(0x45);  // version, length in words
  header.Put<1>(flow.traffic_class);
  header.Put<2>(kIpv4Bytes + bytes_behind);
  header.Put<2>(flow.identification);
  header.Put<2>(kDontFragment);
  header.Put<1>(flow.hop_limit);
  header.Put<1>(kUdpProtocol);
  header.Put<2>(0);  // the checksum, which covers itself as 0
  header.Put(Ipv4Of(flow.source));
  header.Put(Ipv4Of(flow.destination));
  FieldWriter(out.subspan(10)).Put<2>(InternetChecksum(out.first(kIpv4Bytes)));
}

/// Writes an IPv6 header or a GRH, which differ only in the next header.
void PutIpv6(const Flow& flow, uint8_t next_header, size_t bytes_behind, std::span<uint8_t> out) {
  FieldWriter header(out);
  header.Put<4>(uint32_t{6} << 28 | uint32_t{flow.traffic_class} << 20 | (flow.flow_label & 0xfffff));
  header.Put<2>(bytes_behind);
  header.Put<1>(next_header);
  header.Put<1>(flow.hop_limit);
  header.Put(flow.source);
  header.Put(flow.destination);
}

void PutUdp(const Flow& flow, size_t transport_bytes, std::span<uint8_t> out) {
  FieldWriter header(out);
  header.Put<2>(flow.source_port);
  header.Put<2>(kRoceUdpPort);
  header.Put<2>(kUdpBytes + transport_bytes);
  header.Put<2>(0);
}

/// Limits the rest of the input to the length that a header gives.
///
/// @return  whether that many bytes are left
bool Limit(FieldReader& in, size_t bytes) {
  if (in.rest().size() < bytes) return false;
  in = FieldReader(in.rest().first(bytes));
  return true;
}

bool TakeIpv4(FieldReader& in, Flow& flow) {
  if (in.Take<1>() != 0x45) return false;
  flow.traffic_class = static_cast<uint8_t>(in.Take<1>());
  const uint64_t bytes = in.Take<2>();
  flow.identification = static_cast<uint16_t>(in.Take<2>());
  const bool fragment = (in.Take<2>() & ~uint64_t{kDontFragment}) != 0;
  flow.hop_limit = static_cast<uint8_t>(in.Take<1>());
  const uint64_t protocol = in.Take<1>();
  in.Take<2>();
  flow.source = GidOf(in.Take(4));
  flow.destination = GidOf(in.Take(4));
  return !in.cut_short() && !fragment && protocol == kUdpProtocol && bytes >= kIpv4Bytes &&
         Limit(in, bytes - kIpv4Bytes);
}

bool TakeIpv6(FieldReader& in, uint8_t next_header, Flow& flow) {
  const uint64_t word = in.Take<4>();
  flow.traffic_class = static_cast<uint8_t>(word >> 20);
  flow.flow_label = static_cast<uint32_t>(word & 0xfffff);
  const uint64_t bytes = in.Take<2>();
  const uint64_t follows = in.Take<1>();
  flow.hop_limit = static_cast<uint8_t>(in.Take<1>());
  flow.source = GidOf(in.Take(16));
  flow.destination = GidOf(in.Take(16));
  return !in.cut_short() && word >> 28 == 6 && follows == next_header && Limit(in, bytes);
}

bool TakeUdp(FieldReader& in, Flow& flow) {
  flow.source_port = static_cast<uint16_t>(in.Take<2>());
  const uint64_t port = in.Take<2>();
  const uint64_t bytes = in.Take<2>();
  in.Take<2>();
  return !in.cut_short() && port == kRoceUdpPort && bytes >= kUdpBytes && Limit(in, bytes - kUdpBytes);
}

bool TakeNetworkHeaders(uint64_t type, FieldReader& in, Flow& flow) {
  flow.version = type == kRoceV1Type ? mlx5::RoceVersion::kV1 : mlx5::RoceVersion::kV2;
  if (type == kRoceV1Type) return TakeIpv6(in, kTransportFollowsGrh, flow);
  if (type == kIpv6Type) return TakeIpv6(in, kUdpProtocol, flow) && TakeUdp(in, flow);
  return type == kIpv4Type && TakeIpv4(in, flow) && TakeUdp(in, flow);
}

std::optional<Frame> ParseInfiniBandFrame(std::span<const uint8_t> bytes) {
  const std::optional<ReceivedRoute> received = TakeLocalRoute(bytes);
  if (!received) return std::nullopt;
  Frame parsed;
  parsed.flow.version = mlx5::RoceVersion::kV1;
  parsed.flow.local = received->route;
  parsed.flow.grh = received->grh;
  parsed.local = bytes.first(kLocalRouteBytes);
  FieldReader in(bytes.subspan(kLocalRouteBytes, bytes.size() - kLocalRouteBytes - kVcrcBytes));
  const std::span<const uint8_t> behind = in.rest();
  if (received->grh) {
    if (!TakeIpv6(in, kTransportFollowsGrh, parsed.flow)) return std::nullopt;
    if (kIpv6Bytes + in.rest().size() != behind.size()) return std::nullopt;  // links do not pad
    parsed.ip = behind.first(kIpv6Bytes);
  }
  if (in.rest().size() < kBaseHeaderBytes + kIcrcBytes) return std::nullopt;
  parsed.transport = in.rest();
  return parsed;
}

}  // namespace

bool IsIpv4(const Gid& gid) { return std::equal(kIpv4Prefix.begin(), kIpv4Prefix.end(), gid.begin()); }

bool IsMulticast(const Gid& gid) { return IsIpv4(gid) ? gid[12] >> 4 == 0xe : gid[0] == 0xff; }

bool IsToGroup(const Flow& flow) {
  return flow.local ? IsMulticastLid(flow.local->destination) : IsMulticast(flow.destination);
}

size_t FrameHeaderBytes(const Flow& flow) {
  if (flow.local) return kLocalRouteBytes + (flow.grh ? kIpv6Bytes : 0);
  if (flow.version == mlx5::RoceVersion::kV1) return kEthernetBytes + kIpv6Bytes;
  return kEthernetBytes + (TravelsOverIpv4(flow) ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}

size_t FrameTrailerBytes(const Flow& flow) { return flow.local ? kVcrcBytes : 0; }

size_t WriteFrameHeaders(const Flow& flow, size_t transport_bytes, std::span<uint8_t> out) {
  if (flow.local) {
    const size_t bytes = FrameHeaderBytes(flow);
    PutLocalRoute(*flow.local, flow.grh, bytes - kLocalRouteBytes + transport_bytes, out);
    if (flow.grh) PutIpv6(flow, kTransportFollowsGrh, transport_bytes, out.subspan(kLocalRouteBytes));
    return bytes;
  }
  FieldWriter ethernet(out);
  ethernet.Put(flow.destination_mac);
  ethernet.Put(flow.source_mac);
  const uint16_t type = EtherType(flow);
  ethernet.Put<2>(type);
  const std::span<uint8_t> ip = out.subspan(kEthernetBytes);
  if (type == kRoceV1Type) {
    PutIpv6(flow, kTransportFollowsGrh, transport_bytes, ip);
  } else if (type == kIpv6Type) {
    PutIpv6(flow, kUdpProtocol, kUdpBytes + transport_bytes, ip);
    PutUdp(flow, transport_bytes, ip.subspan(kIpv6Bytes));
  } else {
    PutIpv4(flow, kUdpBytes + transport_bytes, ip);
    PutUdp(flow, transport_bytes, ip.subspan(kIpv4Bytes));
  }
  return FrameHeaderBytes(flow);
}

std::optional<Frame> ParseFrame(std::span<const uint8_t> frame, mlx5::PortType link) {
  if (link == mlx5::PortType::kInfiniBand) return ParseInfiniBandFrame(frame);
  FieldReader in(frame);
  Frame parsed;
  const auto destination = in.Take(6), source = in.Take(6);
  const uint64_t type = in.Take<2>();
  if (in.cut_short()) return std::nullopt;
  std::copy(destination.begin(), destination.end(), parsed.flow.destination_mac.begin());
  std::copy(source.begin(), source.end(), parsed.flow.source_mac.begin());
  parsed.ip = in.rest();
  if (!TakeNetworkHeaders(type, in, parsed.flow)) return std::nullopt;
  if (in.rest().size() < kBaseHeaderBytes + kIcrcBytes) return std::nullopt;
  parsed.ip = parsed.ip.first(type == kIpv4Type ? kIpv4Bytes : kIpv6Bytes);
  parsed.transport = in.rest();
  return parsed;
}

}  // namespace softhca
