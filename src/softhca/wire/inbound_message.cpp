#include "wire/inbound_message.hpp"

#include "core/cq.hpp"
#include "core/hca.hpp"
#include "core/receive.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;

bool Starts(PacketOp op) { return IsFirst(op) || IsOnly(op); }
bool Ends(PacketOp op) { return IsLast(op) || IsOnly(op); }

bool Invalidates(PacketOp op) {
  return op == PacketOp::kSendLastInvalidate || op == PacketOp::kSendOnlyInvalidate;
}

CqeOpcode ReceiveOpcode(const Packet& packet) {
  if (Invalidates(packet.op)) return CqeOpcode::kResponderSendInval;
  if (IsWrite(packet.op)) return CqeOpcode::kResponderWriteImm;
  return HasImmediate(packet) ? CqeOpcode::kResponderSendImm : CqeOpcode::kResponderSend;
}

Response Complete(QueuePair& qp, const Packet& packet, uint64_t bytes) {
  return CompleteReceive(qp,
                         {.opcode = ReceiveOpcode(packet),
                          .bytes = static_cast<uint32_t>(bytes),
                          .imm = Invalidates(packet.op) ? mlx5::ToBe32(packet.invalidate_rkey) : packet.imm,
                          .solicited = packet.solicited});
}

}  // namespace

bool IsSend(PacketOp op) { return op <= PacketOp::kSendOnlyImm || Invalidates(op); }

bool IsWrite(PacketOp op) { return op >= PacketOp::kWriteFirst && op <= PacketOp::kWriteOnlyImm; }

Response InboundMessage::Take(const Packet& packet) {
  if (!IsInSequence(packet.op) || !HasRightLength(packet)) return Rejected(Syndrome::kRemoteInvalidRequest);
  if (Starts(packet.op)) {
    is_send_ = IsSend(packet.op);
    received_ = 0;
    rest_ = {packet.memory.address, packet.memory.rkey, packet.memory.bytes};
  }
  const Response response = is_send_ ? TakeSend(packet) : TakeWrite(packet);
  if (response.kind != Response::Kind::kAcknowledged) return response;
  under_way_ = !Ends(packet.op);
  received_ += packet.payload.size();
  rest_.address += packet.payload.size();
  rest_.bytes -= packet.payload.size();
  return response;
}

bool InboundMessage::IsInSequence(PacketOp op) const {
  return under_way_ ? !Starts(op) && IsSend(op) == is_send_ : Starts(op);
}

/// Returns whether a packet has a valid length: every packet but the last has the path MTU, and a write's
/// packets add up to the length in its first one.
///
/// @source  IBTA 1.4, 9.7.4.1
bool InboundMessage::HasRightLength(const Packet& packet) const {
  const uint64_t bytes = packet.payload.size();
  const uint32_t mtu = MtuBytes(qp_.attributes.mtu);
  if (bytes > mtu || (!Ends(packet.op) && bytes != mtu) || (IsLast(packet.op) && bytes == 0)) return false;
  if (IsSend(packet.op))
    return IsOnly(packet.op) || IsFirst(packet.op) || received_ + bytes <= kMaxMessageBytes;
  const uint64_t expected = Starts(packet.op) ? packet.memory.bytes : rest_.bytes;
  return Ends(packet.op) ? bytes == expected : bytes < expected && expected <= kMaxMessageBytes;
}

Response InboundMessage::TakeSend(const Packet& packet) {
  if (Starts(packet.op)) {
    if (const auto refusal = RefuseWithoutReceive(qp_)) return *refusal;
    OpenReceive(qp_);
  }
  const Scatter scatter = FindReceiveMemory(qp_, received_, packet.payload.size());
  if (scatter.fault != Syndrome::kNone) return RejectedReceive(scatter.fault);
  if (Invalidates(packet.op) && !qp_.hca->mkeys().Revoke(packet.invalidate_rkey, qp_.config.pdn, qp_.qpn)) {
    return kRefusedInvalidation;
  }
  if (!CopyPart(scatter.span(), 0, packet.payload)) return RejectedReceive(Syndrome::kLocalProtection);
  return Ends(packet.op) ? Complete(qp_, packet, received_ + packet.payload.size()) : Response{};
}

Response InboundMessage::TakeWrite(const Packet& packet) {
  // Check the whole rest of the write, not only this packet: a write that does not fit must write nothing.
  const RemoteMemory memory = FindRemoteMemory(qp_, rest_, kAccessRemoteWrite);
  const bool receives = HasImmediate(packet);
  if (memory.refusal != Syndrome::kNone) {
    return receives ? RejectedWriteImm(qp_, memory.refusal) : Rejected(memory.refusal);
  }
  if (receives) {
    if (const auto refusal = RefuseWithoutReceive(qp_)) return *refusal;
  }
  if (!CopyPart(memory.span(), 0, packet.payload)) return Rejected(Syndrome::kRemoteAccess);
  return receives ? Complete(qp_, packet, received_ + packet.payload.size()) : Response{};
}

}  // namespace softhca
