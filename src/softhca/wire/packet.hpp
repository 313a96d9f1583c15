#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "warpverbs/mlx5/endian.hpp"

namespace softhca {

namespace mlx5 = warpverbs::mlx5;

/// Upper three bits of a packet's opcode.
enum class PacketService : uint8_t { kRc = 0, kUc = 1, kUd = 3, kXrc = 5, kVendor = 6, kDc = 7 };

/// Lower five bits of a packet's opcode (IBTA 1.4, table 38).
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

/// RETH: memory that a write or read refers to. In a write's first packet, `bytes` is the whole message's.
struct RemoteMemoryHeader {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t bytes = 0;
};

/// AETH: acknowledgement or NAK.
struct AckHeader {
  uint8_t syndrome = 0;
  uint32_t msn = 0;
};

/// AETH syndromes: kind in the upper three bits; credits, timer or cause in the lower five.
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

/// AtomicETH, and the additional operands of masked atomics. Operands are in host order.
struct AtomicHeader {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  // Masked atomics, and all of DC. The card's format is not public, so softhca uses vendor opcodes of its
  // own.
  uint8_t bytes = 8;  ///< 4 or 8
  uint64_t swap_mask = ~uint64_t{0};
  uint64_t compare_mask = ~uint64_t{0};
  uint64_t boundary = 0;
};

/// DETH: additional header of datagrams.
struct DatagramHeader {
  uint32_t qkey = 0;
  uint32_t source_qpn = 0;
};

/// Header of each request of a DC initiator; responses are those of RC. The card's format is not public, so
/// softhca uses vendor opcodes and this header of its own. It names the connection, so that a target needs
/// no packet of its own to open or to close one.
struct DcHeader {
  uint64_t access_key = 0;
  uint64_t connection = 0;  ///< grows from each of the initiator's connections to the next
  uint32_t source_qpn = 0;
  uint32_t start_psn =
      0;  ///< oldest unacknowledged PSN; a target that does not know the connection starts there
};

/// A transport packet: base and extension headers, in host order except `imm`. The opcode determines which
/// extension headers are present.
struct Packet {
  PacketService service =
      PacketService::kRc;  ///< the queue pair's service, never kVendor. kDc: from an initiator
  PacketOp op = PacketOp::kSendOnly;
  bool masked_atomic = false;  ///< for kCompareSwap and kFetchAdd: sent with the vendor opcode, unless by DC
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
  uint32_t srqn = 0;             ///< XRCETH, in requests of XRC
  DatagramHeader datagram{};
  DcHeader dc{};

  std::span<const uint8_t> payload{};  ///< received packets only; without padding
};

// Properties that follow from the opcode.
bool HasMemoryHeader(const Packet& packet);
bool HasAckHeader(const Packet& packet);
bool HasAtomicHeader(const Packet& packet);
bool HasImmediate(const Packet& packet);
bool HasPayload(const Packet& packet);
/// Returns whether a requester sent it.
bool IsRequest(const Packet& packet);
bool IsFirst(PacketOp op);  ///< first of several
bool IsMiddle(PacketOp op);
bool IsLast(PacketOp op);  ///< last of several
bool IsOnly(PacketOp op);
/// Returns the name for messages to users: "WRITE_MIDDLE", "READ_RESP_LAST", "UD_SEND_ONLY",
/// "MASKED_CMP_SWAP"; "UNKNOWN" for an undefined opcode.
const char* ToString(PacketService service, PacketOp op);
const char* ToString(const Packet& packet);

inline constexpr size_t kMaxPacketHeaderBytes = 92;
inline constexpr size_t kIcrcBytes = 4;

/// Returns the padding that brings a payload to a multiple of four bytes.
constexpr uint32_t PadBytes(size_t payload_bytes) { return static_cast<uint32_t>(-payload_bytes & 3); }

/// Writes base and extension headers; the caller appends payload, padding and ICRC.
///
/// @param payload_bytes  without padding; `packet.payload` is ignored
/// @return  bytes written, a multiple of four
/// @pre     `out` has kMaxPacketHeaderBytes; the opcode is defined
size_t EncodeHeaders(const Packet& packet, size_t payload_bytes, std::span<uint8_t> out);

/// Decodes a packet.
///
/// @param bytes  base header to payload, without the ICRC; the result's payload points into it
/// @return  nothing if the opcode is undefined, a header is cut short, the padding exceeds the payload, the
///          version is not 0, the length is not a multiple of four, or there is payload where none is allowed
std::optional<Packet> Decode(std::span<const uint8_t> bytes);

}  // namespace softhca
