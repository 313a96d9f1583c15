#include "wire/packet_responder.hpp"

#include "core/atomic.hpp"
#include "core/hca.hpp"
#include "core/packets.hpp"
#include "core/receive.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

constexpr uint8_t kAcknowledge = aeth::kAck | aeth::kNoCredits;
/// The only partition key, without the full-membership bit.
constexpr uint16_t kPartition = 0x7fff;

constexpr Response kInvalidRequest = Rejected(Syndrome::kRemoteInvalidRequest);

bool IsAtomic(PacketOp op) { return op == PacketOp::kCompareSwap || op == PacketOp::kFetchAdd; }

uint8_t NakSyndrome(Syndrome requester) {
  if (requester == Syndrome::kRemoteInvalidRequest) return aeth::kNakInvalidRequest;
  return requester == Syndrome::kRemoteAccess ? aeth::kNakRemoteAccess : aeth::kNakRemoteOperation;
}

AtomicOperands OperandsOf(const Packet& packet) {
  const AtomicHeader& header = packet.atomic;
  return {.bytes = header.bytes,
          .compare_swap = packet.op == PacketOp::kCompareSwap,
          .swap_add = header.swap_add,
          .compare = header.compare,
          .swap_mask = header.swap_mask,
          .compare_mask = header.compare_mask,
          .boundary = header.boundary};
}

/// Returns the range that a read names, in the protection domain of now: an XRC target has another one with
/// the next request, while it still sends the response.
RemoteRange RangeOf(const QueuePair& qp, const RemoteMemoryHeader& header) {
  return {header.address, header.rkey, header.bytes, qp.config.pdn};
}

}  // namespace

void PacketResponder::OnRequest(const Packet& packet) {
  if ((packet.pkey & kPartition) != kPartition || failure_) return;
  const bool reliable = qp_.config.service == mlx5::ServiceType::kRc;
  const bool xrc = qp_.config.xrc == XrcRole::kTarget;
  if (packet.service != (xrc ? PacketService::kXrc : reliable ? PacketService::kRc : PacketService::kUc))
    return;
  reliable ? OnReliable(packet) : OnUnreliable(packet);
}

void PacketResponder::OnReliable(const Packet& packet) {
  const int32_t delta = PsnDelta(packet.psn, qp_.next_receive_psn);
  if (delta == 0) return OnExpected(packet);
  if (delta < 0) return OnDuplicate(packet);
  if (!nak_sent_ || PsnDelta(packet.psn, furthest_dropped_) > 0) furthest_dropped_ = packet.psn;
  if (!nak_sent_) Nak(aeth::kNakPsnSequence);
}

/// Handles a UC packet. A message with a missing or invalid packet is dropped silently. A receive that cannot
/// hold the message fails: that is the receiver's own error.
void PacketResponder::OnUnreliable(const Packet& packet) {
  const bool starts = IsFirst(packet.op) || IsOnly(packet.op);
  if (starts || packet.psn != qp_.next_receive_psn) message_.Drop();
  qp_.next_receive_psn = AddPsn(packet.psn, 1);
  if (!IsSend(packet.op) && !IsWrite(packet.op)) return;
  const Response response = message_.Take(packet);
  if (response.kind == Response::Kind::kAcknowledged) return Observe(packet);
  message_.Drop();
  if (response.receive_syndrome != Syndrome::kNone) Fail(qp_, response);
}

void PacketResponder::OnExpected(const Packet& packet) {
  const bool nak_pending =
      pending_ack_ && pending_ack_->syndrome != kAcknowledge;  // a NAK that is not sent yet
  nak_sent_ = false;
  const Response response = Execute(packet);
  switch (response.kind) {
    case Response::Kind::kAcknowledged:
      Observe(packet);
      break;
    case Response::Kind::kRnr:
      return Nak(aeth::kRnrNak | response.rnr_timer);
    default:
      return End(response, packet.psn);
  }
  const bool read = packet.op == PacketOp::kReadRequest;
  const uint32_t packets = read ? PacketCount(packet.memory.bytes, qp_.attributes.mtu) : 1;
  qp_.next_receive_psn = AddPsn(packet.psn, packets);
  if (read || IsAtomic(packet.op)) {
    pending_ack_.reset();  // the response acknowledges everything before it
    last_response_psn_ = AddPsn(packet.psn, packets - 1);
  } else if (packet.ack_request || pending_ack_) {
    pending_ack_ = {kAcknowledge, packet.psn};
  }
  if (!message_.under_way()) msn_ = NextMsn();
  // Packets behind the missing one were dropped, and the NAK for them was not sent.
  if (nak_pending && PsnDelta(furthest_dropped_, qp_.next_receive_psn) >= 0) Nak(aeth::kNakPsnSequence);
}

/// Handles a duplicate. Sends and writes were executed, and only their acknowledgement was lost. Reads are
/// executed again; atomics must not be.
///
/// The acknowledgement names the newest packet, but none past a response that may be lost: Linux's rdma_rxe
/// takes an acknowledgement for an atomic's response.
void PacketResponder::OnDuplicate(const Packet& packet) {
  if (IsAtomic(packet.op)) return responses_.RepeatAtomic(packet.psn, msn_);
  if (packet.op == PacketOp::kReadRequest) {
    const uint32_t packets = PacketCount(packet.memory.bytes, qp_.attributes.mtu);
    const bool inside = PsnDelta(AddPsn(packet.psn, packets), qp_.next_receive_psn) <= 0;
    if (inside && Serve(qp_, packet.srqn) && packet.memory.bytes <= kMaxMessageBytes) {
      responses_.RepeatRead(packet.psn, msn_, RangeOf(qp_, packet.memory));
    }
    return;
  }
  if (pending_ack_) return;
  const bool response_follows = last_response_psn_ && PsnDelta(*last_response_psn_, packet.psn) > 0;
  pending_ack_ = {kAcknowledge, response_follows ? packet.psn : AddPsn(qp_.next_receive_psn, kPsnMask)};
}

Response PacketResponder::Execute(const Packet& packet) {
  if (!Serve(qp_, packet.srqn)) return kInvalidRequest;
  if (IsSend(packet.op) || IsWrite(packet.op)) return message_.Take(packet);
  if (message_.under_way() || !responses_.HasRoom()) return kInvalidRequest;
  if (IsAtomic(packet.op)) return TakeAtomic(packet);
  return packet.op == PacketOp::kReadRequest ? TakeRead(packet) : kInvalidRequest;
}

Response PacketResponder::TakeRead(const Packet& packet) {
  if (packet.memory.bytes > kMaxMessageBytes) return kInvalidRequest;
  const RemoteRange range = RangeOf(qp_, packet.memory);
  const RemoteMemory memory = FindRemoteMemory(qp_, range, kAccessRemoteRead);
  if (memory.refusal != Syndrome::kNone) return Rejected(memory.refusal);
  responses_.AddRead(packet.psn, NextMsn(), range);
  return {};
}

Response PacketResponder::TakeAtomic(const Packet& packet) {
  if (packet.atomic.bytes != 4 && packet.atomic.bytes != 8) return kInvalidRequest;
  const AtomicResult result =
      ExecuteAtomic(qp_, packet.atomic.address, packet.atomic.rkey, OperandsOf(packet));
  if (result.refusal != Syndrome::kNone) return Rejected(result.refusal);
  responses_.AddAtomic(packet.psn, NextMsn(), result.old);
  return {};
}

void PacketResponder::Observe(const Packet& packet) const {
  if (Observer* const observer = qp_.hca->observer()) observer->OnExecuted(qp_, packet);
}

void PacketResponder::Nak(uint8_t syndrome) {
  nak_sent_ = true;
  pending_ack_ = {syndrome, qp_.next_receive_psn};
}

void PacketResponder::End(const Response& rejected, uint32_t psn) {
  if (!rejected.silent) pending_ack_ = {NakSyndrome(rejected.syndrome), psn};
  failure_ = rejected;
}

bool PacketResponder::Flush() {
  if (const auto refusal = responses_.Send()) End(Rejected(refusal->syndrome), refusal->psn);
  if (!responses_.empty()) return true;
  // An acknowledgement promises that the data has arrived.
  if (!WaitForCopies() && !failure_)
    End(Rejected(Syndrome::kRemoteOperation), AddPsn(qp_.next_receive_psn, kPsnMask));
  if (pending_ack_) {
    Packet packet{
        .op = PacketOp::kAcknowledge, .dest_qpn = qp_.attributes.remote_qpn, .psn = pending_ack_->psn};
    packet.ack = {pending_ack_->syndrome, msn_};
    sink_.Send(qp_, packet, {});
    pending_ack_.reset();
  }
  if (failure_) Fail(qp_, *failure_);
  return false;
}

}  // namespace softhca
