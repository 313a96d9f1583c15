#include "wire/responder_fixture.hpp"

namespace softhca {
namespace {

std::string Hex(uint8_t value) {
  constexpr const char* kDigits = "0123456789abcdef";
  return {'0', 'x', kDigits[value >> 4], kDigits[value & 15]};
}

}  // namespace

std::string Describe(const Packet& packet) {
  std::string psn = std::to_string(packet.psn);
  std::string text = std::string(ToString(packet.service, packet.op)) + ' ' + psn;
  if (!HasAckHeader(packet)) return text;
  const uint8_t kind = packet.ack.syndrome & aeth::kKindMask;
  if (kind == aeth::kNak) text = "NAK " + Hex(packet.ack.syndrome) + " at " + psn;
  if (kind == aeth::kRnrNak) text = "RNR " + std::to_string(packet.ack.syndrome & 31) + " at " + psn;
  return text + " msn " + std::to_string(packet.ack.msn);
}

}  // namespace softhca
