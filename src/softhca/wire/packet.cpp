#include "wire/packet.hpp"

#include <array>
#include <iterator>
#include <string>

#include "wire/byte_order.hpp"

namespace softhca {
namespace {

/// Extension headers, in the order in which they follow the base header.
enum Headers : uint16_t {
  kNothing = 0,
  kDeth = 1 << 0,
  kReth = 1 << 1,
  kAtomicEth = 1 << 2,
  kMasks = 1 << 3,  ///< operands of masked atomics
  kAeth = 1 << 4,
  kAtomicAckEth = 1 << 5,
  kImmDt = 1 << 6,
  kIeth = 1 << 7,
  kDcEth = 1 << 8,  ///< directly after the base header
};

struct OpcodeRow {
  PacketService service;
  PacketOp op;
  const char* name;
  uint16_t headers;
  bool payload = true;
};

constexpr PacketService kRc = PacketService::kRc, kUc = PacketService::kUc, kUd = PacketService::kUd,
                        kVendor = PacketService::kVendor, kDc = PacketService::kDc;

/// @source  IBTA 1.4, table 38
constexpr auto kOpcodes = std::to_array<OpcodeRow>({
    {kRc, PacketOp::kSendFirst, "SEND_FIRST", kNothing},
    {kRc, PacketOp::kSendMiddle, "SEND_MIDDLE", kNothing},
    {kRc, PacketOp::kSendLast, "SEND_LAST", kNothing},
    {kRc, PacketOp::kSendLastImm, "SEND_LAST_IMM", kImmDt},
    {kRc, PacketOp::kSendOnly, "SEND_ONLY", kNothing},
    {kRc, PacketOp::kSendOnlyImm, "SEND_ONLY_IMM", kImmDt},
    {kRc, PacketOp::kWriteFirst, "WRITE_FIRST", kReth},
    {kRc, PacketOp::kWriteMiddle, "WRITE_MIDDLE", kNothing},
    {kRc, PacketOp::kWriteLast, "WRITE_LAST", kNothing},
    {kRc, PacketOp::kWriteLastImm, "WRITE_LAST_IMM", kImmDt},
    {kRc, PacketOp::kWriteOnly, "WRITE_ONLY", kReth},
    {kRc, PacketOp::kWriteOnlyImm, "WRITE_ONLY_IMM", kReth | kImmDt},
    {kRc, PacketOp::kReadRequest, "READ_REQUEST", kReth, false},
    {kRc, PacketOp::kReadResponseFirst, "READ_RESP_FIRST", kAeth},
    {kRc, PacketOp::kReadResponseMiddle, "READ_RESP_MIDDLE", kNothing},
    {kRc, PacketOp::kReadResponseLast, "READ_RESP_LAST", kAeth},
    {kRc, PacketOp::kReadResponseOnly, "READ_RESP_ONLY", kAeth},
    {kRc, PacketOp::kAcknowledge, "ACK", kAeth, false},
    {kRc, PacketOp::kAtomicAcknowledge, "ATOMIC_ACK", kAeth | kAtomicAckEth, false},
    {kRc, PacketOp::kCompareSwap, "CMP_SWAP", kAtomicEth, false},
    {kRc, PacketOp::kFetchAdd, "FETCH_ADD", kAtomicEth, false},
    {kRc, PacketOp::kSendLastInvalidate, "SEND_LAST_INV", kIeth},
    {kRc, PacketOp::kSendOnlyInvalidate, "SEND_ONLY_INV", kIeth},
    {kUc, PacketOp::kSendFirst, "UC_SEND_FIRST", kNothing},
    {kUc, PacketOp::kSendMiddle, "UC_SEND_MIDDLE", kNothing},
    {kUc, PacketOp::kSendLast, "UC_SEND_LAST", kNothing},
    {kUc, PacketOp::kSendLastImm, "UC_SEND_LAST_IMM", kImmDt},
    {kUc, PacketOp::kSendOnly, "UC_SEND_ONLY", kNothing},
    {kUc, PacketOp::kSendOnlyImm, "UC_SEND_ONLY_IMM", kImmDt},
    {kUc, PacketOp::kWriteFirst, "UC_WRITE_FIRST", kReth},
    {kUc, PacketOp::kWriteMiddle, "UC_WRITE_MIDDLE", kNothing},
    {kUc, PacketOp::kWriteLast, "UC_WRITE_LAST", kNothing},
    {kUc, PacketOp::kWriteLastImm, "UC_WRITE_LAST_IMM", kImmDt},
    {kUc, PacketOp::kWriteOnly, "UC_WRITE_ONLY", kReth},
    {kUc, PacketOp::kWriteOnlyImm, "UC_WRITE_ONLY_IMM", kReth | kImmDt},
    {kUd, PacketOp::kSendOnly, "UD_SEND_ONLY", kDeth},
    {kUd, PacketOp::kSendOnlyImm, "UD_SEND_ONLY_IMM", kDeth | kImmDt},
    {kVendor, PacketOp::kCompareSwap, "MASKED_CMP_SWAP", kAtomicEth | kMasks, false},
    {kVendor, PacketOp::kFetchAdd, "MASKED_FETCH_ADD", kAtomicEth | kMasks, false},
    {kDc, PacketOp::kSendFirst, "DC_SEND_FIRST", kDcEth},
    {kDc, PacketOp::kSendMiddle, "DC_SEND_MIDDLE", kDcEth},
    {kDc, PacketOp::kSendLast, "DC_SEND_LAST", kDcEth},
    {kDc, PacketOp::kSendLastImm, "DC_SEND_LAST_IMM", kDcEth | kImmDt},
    {kDc, PacketOp::kSendOnly, "DC_SEND_ONLY", kDcEth},
    {kDc, PacketOp::kSendOnlyImm, "DC_SEND_ONLY_IMM", kDcEth | kImmDt},
    {kDc, PacketOp::kWriteFirst, "DC_WRITE_FIRST", kDcEth | kReth},
    {kDc, PacketOp::kWriteMiddle, "DC_WRITE_MIDDLE", kDcEth},
    {kDc, PacketOp::kWriteLast, "DC_WRITE_LAST", kDcEth},
    {kDc, PacketOp::kWriteLastImm, "DC_WRITE_LAST_IMM", kDcEth | kImmDt},
    {kDc, PacketOp::kWriteOnly, "DC_WRITE_ONLY", kDcEth | kReth},
    {kDc, PacketOp::kWriteOnlyImm, "DC_WRITE_ONLY_IMM", kDcEth | kReth | kImmDt},
    {kDc, PacketOp::kReadRequest, "DC_READ_REQUEST", kDcEth | kReth, false},
    {kDc, PacketOp::kCompareSwap, "DC_CMP_SWAP", kDcEth | kAtomicEth | kMasks, false},
    {kDc, PacketOp::kFetchAdd, "DC_FETCH_ADD", kDcEth | kAtomicEth | kMasks, false},
    {kDc, PacketOp::kSendLastInvalidate, "DC_SEND_LAST_INV", kDcEth | kIeth},
    {kDc, PacketOp::kSendOnlyInvalidate, "DC_SEND_ONLY_INV", kDcEth | kIeth},
});

constexpr uint8_t Opcode(PacketService service, PacketOp op) {
  return static_cast<uint8_t>(static_cast<uint8_t>(service) << 5 | static_cast<uint8_t>(op));
}

/// Row of each opcode; null if it is not defined. XRC has the rows of RC.
constexpr std::array<const OpcodeRow*, 256> kRows = [] {
  std::array<const OpcodeRow*, 256> rows{};
  for (const OpcodeRow& row : kOpcodes) {
    rows[Opcode(row.service, row.op)] = &row;
    if (row.service == kRc) rows[Opcode(PacketService::kXrc, row.op)] = &row;
  }
  return rows;
}();

/// Returns the upper bits of the opcode. DC's atomics always have masks.
PacketService ServiceOnWire(const Packet& packet) {
  return packet.masked_atomic && packet.service != kDc ? kVendor : packet.service;
}

uint8_t OpcodeOf(const Packet& packet) { return Opcode(ServiceOnWire(packet), packet.op); }

bool Has(const Packet& packet, uint16_t headers) {
  const OpcodeRow* const row = kRows[OpcodeOf(packet)];
  return row != nullptr && (row->headers & headers) != 0;
}

void PutBaseHeader(const Packet& packet, size_t payload_bytes, FieldWriter& out) {
  out.Put<1>(OpcodeOf(packet));
  out.Put<1>(uint32_t{packet.solicited} << 7 | uint32_t{packet.migrated} << 6 | PadBytes(payload_bytes) << 4);
  out.Put<2>(packet.pkey);
  out.Put<1>(uint32_t{packet.fecn} << 7 | uint32_t{packet.becn} << 6);
  out.Put<3>(packet.dest_qpn);
  out.Put<1>(uint32_t{packet.ack_request} << 7);
  out.Put<3>(packet.psn);
}

/// Base header fields that Packet does not hold.
struct BaseHeader {
  uint8_t opcode;
  uint8_t pad_bytes;
  uint8_t version;
};

BaseHeader TakeBaseHeader(FieldReader& in, Packet& packet) {
  const auto opcode = static_cast<uint8_t>(in.Take<1>());
  const auto flags = static_cast<uint8_t>(in.Take<1>());
  packet.solicited = (flags & 0x80) != 0;
  packet.migrated = (flags & 0x40) != 0;
  packet.pkey = static_cast<uint16_t>(in.Take<2>());
  const uint64_t congestion = in.Take<1>();
  packet.fecn = (congestion & 0x80) != 0;
  packet.becn = (congestion & 0x40) != 0;
  packet.dest_qpn = static_cast<uint32_t>(in.Take<3>());
  packet.ack_request = (in.Take<1>() & 0x80) != 0;
  packet.psn = static_cast<uint32_t>(in.Take<3>());
  return {opcode, static_cast<uint8_t>(flags >> 4 & 3), static_cast<uint8_t>(flags & 15)};
}

/// Returns whether a packet has an XRCETH, before its other extension headers.
///
/// @source  IBTA 1.4, annex A14
bool HasXrcHeader(const Packet& packet) { return packet.service == PacketService::kXrc && IsRequest(packet); }

void PutExtensionHeaders(const Packet& packet, uint16_t headers, FieldWriter& out) {
  if (HasXrcHeader(packet)) out.Put<4>(packet.srqn);
  if (headers & kDcEth) {
    out.Put<8>(packet.dc.access_key);
    out.Put<8>(packet.dc.connection);
    out.Put<4>(packet.dc.source_qpn);
    out.Put<4>(packet.dc.start_psn);
  }
  if (headers & kDeth) {
    out.Put<4>(packet.datagram.qkey);
    out.Put<4>(packet.datagram.source_qpn);
  }
  if (headers & kReth) {
    out.Put<8>(packet.memory.address);
    out.Put<4>(packet.memory.rkey);
    out.Put<4>(packet.memory.bytes);
  }
  if (headers & kAtomicEth) {
    out.Put<8>(packet.atomic.address);
    out.Put<4>(packet.atomic.rkey);
    out.Put<8>(packet.atomic.swap_add);
    out.Put<8>(packet.atomic.compare);
  }
  if (headers & kMasks) {
    out.Put<4>(packet.atomic.bytes);
    out.Put<8>(packet.atomic.swap_mask);
    out.Put<8>(packet.atomic.compare_mask);
    out.Put<8>(packet.atomic.boundary);
  }
  if (headers & kAeth) {
    out.Put<1>(packet.ack.syndrome);
    out.Put<3>(packet.ack.msn);
  }
  if (headers & kAtomicAckEth) out.Put<8>(packet.original);
  if (headers & kImmDt) out.Put<4>(mlx5::FromBe(packet.imm));
  if (headers & kIeth) out.Put<4>(packet.invalidate_rkey);
}

void TakeExtensionHeaders(FieldReader& in, uint16_t headers, Packet& packet) {
  if (HasXrcHeader(packet)) packet.srqn = static_cast<uint32_t>(in.Take<4>() & 0xffffff);
  if (headers & kDcEth) {
    packet.dc.access_key = in.Take<8>();
    packet.dc.connection = in.Take<8>();
    packet.dc.source_qpn = static_cast<uint32_t>(in.Take<4>() & 0xffffff);
    packet.dc.start_psn = static_cast<uint32_t>(in.Take<4>() & 0xffffff);
  }
  if (headers & kDeth) {
    packet.datagram.qkey = static_cast<uint32_t>(in.Take<4>());
    packet.datagram.source_qpn = static_cast<uint32_t>(in.Take<4>() & 0xffffff);
  }
  if (headers & kReth) {
    packet.memory.address = in.Take<8>();
    packet.memory.rkey = static_cast<uint32_t>(in.Take<4>());
    packet.memory.bytes = static_cast<uint32_t>(in.Take<4>());
  }
  if (headers & kAtomicEth) {
    packet.atomic.address = in.Take<8>();
    packet.atomic.rkey = static_cast<uint32_t>(in.Take<4>());
    packet.atomic.swap_add = in.Take<8>();
    packet.atomic.compare = in.Take<8>();
  }
  if (headers & kMasks) {
    packet.atomic.bytes = static_cast<uint8_t>(in.Take<4>());
    packet.atomic.swap_mask = in.Take<8>();
    packet.atomic.compare_mask = in.Take<8>();
    packet.atomic.boundary = in.Take<8>();
  }
  if (headers & kAeth) {
    packet.ack.syndrome = static_cast<uint8_t>(in.Take<1>());
    packet.ack.msn = static_cast<uint32_t>(in.Take<3>());
  }
  if (headers & kAtomicAckEth) packet.original = in.Take<8>();
  if (headers & kImmDt) packet.imm = mlx5::ToBe32(static_cast<uint32_t>(in.Take<4>()));
  if (headers & kIeth) packet.invalidate_rkey = static_cast<uint32_t>(in.Take<4>());
}

}  // namespace

bool HasMemoryHeader(const Packet& packet) { return Has(packet, kReth); }
bool HasAckHeader(const Packet& packet) { return Has(packet, kAeth); }
bool HasAtomicHeader(const Packet& packet) { return Has(packet, kAtomicEth); }
bool HasImmediate(const Packet& packet) { return Has(packet, kImmDt); }

bool HasPayload(const Packet& packet) {
  const OpcodeRow* const row = kRows[OpcodeOf(packet)];
  return row != nullptr && row->payload;
}

bool IsRequest(const Packet& packet) {
  return packet.op < PacketOp::kReadResponseFirst || packet.op > PacketOp::kAtomicAcknowledge;
}

bool IsFirst(PacketOp op) {
  return op == PacketOp::kSendFirst || op == PacketOp::kWriteFirst || op == PacketOp::kReadResponseFirst;
}

bool IsMiddle(PacketOp op) {
  return op == PacketOp::kSendMiddle || op == PacketOp::kWriteMiddle || op == PacketOp::kReadResponseMiddle;
}

bool IsLast(PacketOp op) {
  return op == PacketOp::kSendLast || op == PacketOp::kSendLastImm || op == PacketOp::kSendLastInvalidate ||
         op == PacketOp::kWriteLast || op == PacketOp::kWriteLastImm || op == PacketOp::kReadResponseLast;
}

bool IsOnly(PacketOp op) { return !IsFirst(op) && !IsMiddle(op) && !IsLast(op); }

const char* ToString(PacketService service, PacketOp op) {
  const OpcodeRow* const row = kRows[Opcode(service, op)];
  if (row == nullptr) return "UNKNOWN";
  if (service != PacketService::kXrc) return row->name;
  static const auto kXrcNames = [] {
    std::array<std::string, std::size(kOpcodes)> names;
    for (size_t i = 0; i < names.size(); ++i) names[i] = std::string("XRC_") + kOpcodes[i].name;
    return names;
  }();
  return kXrcNames[static_cast<size_t>(row - kOpcodes.data())].c_str();
}

const char* ToString(const Packet& packet) { return ToString(ServiceOnWire(packet), packet.op); }

size_t EncodeHeaders(const Packet& packet, size_t payload_bytes, std::span<uint8_t> out) {
  FieldWriter writer(out);
  PutBaseHeader(packet, payload_bytes, writer);
  PutExtensionHeaders(packet, kRows[OpcodeOf(packet)]->headers, writer);
  return writer.written();
}

std::optional<Packet> Decode(std::span<const uint8_t> bytes) {
  FieldReader in(bytes);
  Packet packet;
  const BaseHeader base = TakeBaseHeader(in, packet);
  const OpcodeRow* const row = kRows[base.opcode];
  if (row == nullptr || base.version != 0 || bytes.size() % 4 != 0) return std::nullopt;
  packet.masked_atomic = row->service == kVendor;
  packet.service = packet.masked_atomic ? kRc : static_cast<PacketService>(base.opcode >> 5);
  packet.op = row->op;
  TakeExtensionHeaders(in, row->headers, packet);
  if (in.cut_short() || base.pad_bytes > in.rest().size()) return std::nullopt;
  packet.payload = in.rest().first(in.rest().size() - base.pad_bytes);
  if (!row->payload && !in.rest().empty()) return std::nullopt;
  return packet;
}

}  // namespace softhca
