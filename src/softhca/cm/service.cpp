#include "cm/service.hpp"

#include "wire/byte_order.hpp"

namespace softhca::cm {

namespace {
constexpr uint8_t kVersion = 0, kIpv4 = 4, kIpv6 = 6;
}

void Write(const IpHeader& header, std::span<uint8_t> out) {
  FieldWriter writer(out);
  writer.Put<1>(kVersion);
  writer.Put<1>((header.ipv6 ? kIpv6 : kIpv4) << 4);
  writer.Put<2>(header.source_port);
  writer.Put(header.source);
  writer.Put(header.destination);
}

std::optional<IpHeader> ReadIpHeader(std::span<const uint8_t> in) {
  FieldReader reader(in);
  if (reader.Take<1>() >> 4 != kVersion) return {};
  const uint64_t ip = reader.Take<1>() >> 4;
  if (ip != kIpv4 && ip != kIpv6) return {};
  IpHeader header{.ipv6 = ip == kIpv6, .source_port = static_cast<uint16_t>(reader.Take<2>())};
  for (uint8_t& byte : header.source) byte = static_cast<uint8_t>(reader.Take<1>());
  for (uint8_t& byte : header.destination) byte = static_cast<uint8_t>(reader.Take<1>());
  return header;
}

}  // namespace softhca::cm
