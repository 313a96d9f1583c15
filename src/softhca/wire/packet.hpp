#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "warpverbs/mlx5/endian.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

/// The upper three bits of a packet's opcode.
enum class PacketService : uint8_t { kRc = 0, kUc = 1, kUd = 3, kVendor = 6 };

/// The lower five bits of a packet's opcode (IBTA 1.4, table 38).
enum class PacketOp : uint8_t {
  kSendFirst = 0,
  kSendMiddle = 1,
  kSendLast = 2,
  kSendLastImm = 3,
  kSendOnly = 4,
  kSendOnlyImm = 5,
  kWriteFirst = 6,
  kWriteMiddle = 7,
  kWriteLast = 8,
  kWriteLastImm = 9,
  kWriteOnly = 10,
  kWriteOnlyImm = 11,
  kReadRequest = 12,
  kReadResponseFirst = 13,
  kReadResponseMiddle = 14,
  kReadResponseLast = 15,
  kReadResponseOnly = 16,
  kAcknowledge = 17,
  kAtomicAcknowledge = 18,
  kCompareSwap = 19,
  kFetchAdd = 20,
  kSendLastInvalidate = 22,
  kSendOnlyInvalidate = 23,
};

/// RETH: the memory that a write or read names; of a write's first packet, the length of the whole message.
struct RemoteMemoryHeader {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;
};

/// AETH.
struct AckHeader {
  uint8_t syndrome = 0;
  uint32_t msn = 0;
};

/// Syndromes of AETH: a kind in the upper three bits, credits, timer or cause in the lower five.
namespace aeth {
inline constexpr uint8_t kKindMask = 0xe0;
inline constexpr uint8_t kAck = 0x00;
inline constexpr uint8_t kNoCredits = 0x1f;  ///< end-to-end credits are not used
inline constexpr uint8_t kRnrNak = 0x20;
inline constexpr uint8_t kNak = 0x60;
inline constexpr uint8_t kNakPsnSequence = 0x60;
inline constexpr uint8_t kNakInvalidRequest = 0x61;
inline constexpr uint8_t kNakRemoteAccess = 0x62;
inline constexpr uint8_t kNakRemoteOperation = 0x63;
}  // namespace aeth

/// AtomicETH, and what masked atomics add to it. Operands in host order.
struct AtomicHeader {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  // Masked atomics only: how the card writes them is not public, so softhca's own opcodes carry them.
  uint8_t bytes = 8;  ///< 4 or 8
  uint64_t swap_mask = ~uint64_t{0};
  uint64_t compare_mask = ~uint64_t{0};
  uint64_t boundary = 0;
};

/// DETH.
struct DatagramHeader {
  uint32_t qkey = 0;
  uint32_t source_qpn = 0;
};

/// A transport packet: base and extension headers, in host order but for `imm`. Which extension headers
/// count, the opcode says.
struct Packet {
  PacketService service = PacketService::kRc;  ///< of the queue pair: never kVendor
  PacketOp op = PacketOp::kSendOnly;
  bool masked_atomic = false;  ///< with kCompareSwap and kFetchAdd: travels with the vendor's opcode
  bool solicited = false;
  bool migrated = true;  ///< MigReq; ConnectX sends 1
  bool ack_request = false;
  bool fecn = false, becn = false;
  uint16_t pkey = 0xffff;
  uint32_t dest_qpn = 0;
  uint32_t psn = 0;

  RemoteMemoryHeader memory{};
  AckHeader ack{};
  AtomicHeader atomic{};
  uint64_t original = 0;  ///< AtomicAckETH
  mlx5::Be32 imm{};
  uint32_t invalidate_rkey = 0;  ///< IETH
  DatagramHeader datagram{};

  std::span<const uint8_t> payload{};  ///< of a received packet, without padding
};

// What an opcode says of its packet.
bool HasMemoryHeader(const Packet& packet);
bool HasAckHeader(const Packet& packet);
bool HasAtomicHeader(const Packet& packet);
bool HasImmediate(const Packet& packet);
bool HasPayload(const Packet& packet);
/// Whether a requester sent it.
bool IsRequest(const Packet& packet);
bool IsFirst(PacketOp op);  ///< first of several
bool IsMiddle(PacketOp op);
bool IsLast(PacketOp op);  ///< last of several
bool IsOnly(PacketOp op);
/// For messages to users: "WRITE_MIDDLE", "READ_RESP_LAST", "UD_SEND_ONLY", "MASKED_CMP_SWAP"; "UNKNOWN" if
/// there is no such opcode.
const char* Name(PacketService service, PacketOp op);
const char* Name(const Packet& packet);

inline constexpr size_t kMaxPacketHeaderBytes = 72;
inline constexpr size_t kIcrcBytes = 4;

/// Bytes of padding that bring a payload to a multiple of four.
constexpr uint32_t PadBytes(size_t payload_bytes) { return static_cast<uint32_t>(-payload_bytes & 3); }

/// Writes base and extension headers; the caller appends payload, padding and ICRC.
///
/// @param payload_bytes  without padding; `packet.payload` is not looked at
/// @return  bytes written, a multiple of four
/// @pre     `out` has kMaxPacketHeaderBytes; there is such an opcode
size_t EncodeHeaders(const Packet& packet, size_t payload_bytes, std::span<uint8_t> out);

/// Reads a packet from its base header to before its ICRC; the payload stays where it is.
///
/// @return  nothing if the opcode is unknown, a header is cut short, the padding exceeds what is there, the
///          version is not 0, the length is no multiple of four, or a packet without payload has one
std::optional<Packet> Decode(std::span<const uint8_t> bytes);

}  // namespace softhca
