#include "wire/local_route.hpp"

#include <array>

#include "wire/byte_order.hpp"

namespace softhca {
namespace {

// Values of the field "link next header".
constexpr uint8_t kBaseHeaderFollows = 2, kGrhFollows = 3;
constexpr uint32_t kDataLanes = 8;

/// Remainders of a byte that is followed by as many zeros as the index of its table. The table of a byte's
/// place lets Vcrc() take eight bytes at a time.
using Remainders = std::array<std::array<uint16_t, 256>, 8>;

constexpr Remainders kRemainders = [] {
  constexpr uint16_t kPolynomial = 0xd008;  // x^16 + x^12 + x^3 + x + 1; the lowest bit is x^15
  Remainders tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = static_cast<uint16_t>(crc);
  }
  for (size_t zeros = 1; zeros < tables.size(); ++zeros) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint16_t crc = tables[zeros - 1][byte];
      tables[zeros][byte] = static_cast<uint16_t>(crc >> 8 ^ tables[0][crc & 0xff]);
    }
  }
  return tables;
}();

}  // namespace

void PutLocalRoute(const LocalRoute& route, bool grh, size_t bytes_behind, std::span<uint8_t> out) {
  FieldWriter header(out);
  header.Put<1>(route.service_level % kDataLanes << 4);  // virtual lane, link version 0
  header.Put<1>(uint32_t{route.service_level} << 4 | (grh ? kGrhFollows : kBaseHeaderFollows));
  header.Put<2>(route.destination);
  header.Put<2>((kLocalRouteBytes + bytes_behind) / 4);
  header.Put<2>(route.source);
}

std::optional<ReceivedRoute> TakeLocalRoute(std::span<const uint8_t> packet) {
  FieldReader in(packet);
  ReceivedRoute received;
  const uint64_t version = in.Take<1>() & 0xf;
  const auto level_next = static_cast<uint8_t>(in.Take<1>());
  received.route.service_level = level_next >> 4;
  received.route.destination = static_cast<uint16_t>(in.Take<2>());
  const uint64_t words = in.Take<2>() & 0x7ff;
  received.route.source = static_cast<uint16_t>(in.Take<2>());
  const uint32_t next = level_next & 3;
  received.grh = next == kGrhFollows;
  const bool whole = !in.cut_short() && 4 * words + kVcrcBytes == packet.size();
  if (!whole || version != 0 || (next != kBaseHeaderFollows && next != kGrhFollows)) return std::nullopt;
  return received;
}

uint16_t Vcrc(std::span<const uint8_t> bytes) {
  uint32_t crc = 0xffff;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    const auto& table = kRemainders;
    crc = table[7][(bytes[0] ^ crc) & 0xff] ^ table[6][(bytes[1] ^ crc >> 8) & 0xff] ^ table[5][bytes[2]] ^
          table[4][bytes[3]] ^ table[3][bytes[4]] ^ table[2][bytes[5]] ^ table[1][bytes[6]] ^
          table[0][bytes[7]];
  }
  for (const uint8_t byte : bytes) crc = crc >> 8 ^ kRemainders[0][(crc ^ byte) & 0xff];
  return static_cast<uint16_t>(~crc);
}

}  // namespace softhca
