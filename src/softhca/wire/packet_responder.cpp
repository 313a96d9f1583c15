#include "wire/packet_responder.hpp"

#include "core/atomic.hpp"
#include "core/packets.hpp"
#include "core/receive.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

constexpr uint8_t kAcknowledge = aeth::kAck | aeth::kNoCredits;
/// The only partition there is, without the bit of full members.
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

RemoteRange RangeOf(const RemoteMemoryHeader& header) { return {header.address, header.rkey, header.bytes}; }

}  // namespace

void PacketResponder::OnRequest(const Packet& packet) {
  if ((packet.pkey & kPartition) != kPartition || end_) return;
  const bool reliable = qp_.config.service == mlx5::ServiceType::kRc;
  if (packet.service != (reliable ? PacketService::kRc : PacketService::kUc)) return;
  reliable ? OnReliable(packet) : OnUnreliable(packet);
}

void PacketResponder::OnReliable(const Packet& packet) {
  const int32_t delta = PsnDelta(packet.psn, qp_.next_receive_psn);
  if (delta == 0) return OnExpected(packet);
  if (delta < 0) return OnDuplicate(packet);
  if (!naked_ || PsnDelta(packet.psn, too_early_) > 0) too_early_ = packet.psn;
  if (!naked_) Nak(aeth::kNakPsnSequence);
}

/// A message of which a packet is missing or wrong is dropped, and nobody is told. A receive that cannot take
/// the message is the receiver's own fault, and fails.
void PacketResponder::OnUnreliable(const Packet& packet) {
  const bool starts = IsFirst(packet.op) || IsOnly(packet.op);
  if (starts || packet.psn != qp_.next_receive_psn) message_.Drop();
  qp_.next_receive_psn = AddPsn(packet.psn, 1);
  if (!IsSend(packet.op) && !IsWrite(packet.op)) return;
  const Response response = message_.Take(packet);
  if (response.kind == Response::Kind::kAcknowledged) return;
  message_.Drop();
  if (response.receive_syndrome != Syndrome::kNone) Fail(qp_, response);
}

void PacketResponder::OnExpected(const Packet& packet) {
  const bool untold = verdict_ && verdict_->syndrome != kAcknowledge;  // a NAK that has not left
  naked_ = false;
  const Response response = Execute(packet);
  switch (response.kind) {
    case Response::Kind::kAcknowledged:
      break;
    case Response::Kind::kReceiverNotReady:
      return Nak(aeth::kRnrNak | response.rnr_timer);
    default:
      return End(response, packet.psn);
  }
  const bool read = packet.op == PacketOp::kReadRequest;
  const uint32_t packets = read ? PacketCount(packet.memory.bytes, qp_.attributes.mtu) : 1;
  qp_.next_receive_psn = AddPsn(packet.psn, packets);
  if (read || IsAtomic(packet.op)) {
    verdict_.reset();  // their own answers acknowledge what came before them
    last_answer_ = AddPsn(packet.psn, packets - 1);
  } else if (packet.ack_request || verdict_) {
    verdict_ = {kAcknowledge, packet.psn};
  }
  if (!message_.under_way()) msn_ = NextMsn();
  // What came too early was dropped, and the peer has not heard of it.
  if (untold && PsnDelta(too_early_, qp_.next_receive_psn) >= 0) Nak(aeth::kNakPsnSequence);
}

/// Sends and writes were executed: the acknowledgement was lost. Reads are executed again, atomics must not.
///
/// The acknowledgement names the newest packet, but none behind an answer that may be lost: Linux's rdma_rxe
/// takes an acknowledgement for an atomic's answer.
void PacketResponder::OnDuplicate(const Packet& packet) {
  if (IsAtomic(packet.op)) return answers_.RepeatAtomic(packet.psn, msn_);
  if (packet.op == PacketOp::kReadRequest) {
    const uint32_t packets = PacketCount(packet.memory.bytes, qp_.attributes.mtu);
    const bool inside = PsnDelta(AddPsn(packet.psn, packets), qp_.next_receive_psn) <= 0;
    if (inside && packet.memory.bytes <= kMaxMessageBytes) {
      answers_.RepeatRead(packet.psn, msn_, RangeOf(packet.memory));
    }
    return;
  }
  if (verdict_) return;
  const bool answer_behind = last_answer_ && PsnDelta(*last_answer_, packet.psn) > 0;
  verdict_ = {kAcknowledge, answer_behind ? packet.psn : AddPsn(qp_.next_receive_psn, kPsnMask)};
}

Response PacketResponder::Execute(const Packet& packet) {
  if (IsSend(packet.op) || IsWrite(packet.op)) return message_.Take(packet);
  if (message_.under_way() || !answers_.HasRoom()) return kInvalidRequest;
  if (IsAtomic(packet.op)) return TakeAtomic(packet);
  return packet.op == PacketOp::kReadRequest ? TakeRead(packet) : kInvalidRequest;
}

Response PacketResponder::TakeRead(const Packet& packet) {
  if (packet.memory.bytes > kMaxMessageBytes) return kInvalidRequest;
  const RemoteRange range = RangeOf(packet.memory);
  const RemoteMemory memory = FindRemoteMemory(qp_, range, kAccessRemoteRead);
  if (memory.refusal != Syndrome::kNone) return Rejected(memory.refusal);
  answers_.AddRead(packet.psn, NextMsn(), range);
  return {};
}

Response PacketResponder::TakeAtomic(const Packet& packet) {
  if (packet.atomic.bytes != 4 && packet.atomic.bytes != 8) return kInvalidRequest;
  const AtomicResult result =
      ExecuteAtomic(qp_, packet.atomic.address, packet.atomic.rkey, OperandsOf(packet));
  if (result.refusal != Syndrome::kNone) return Rejected(result.refusal);
  answers_.AddAtomic(packet.psn, NextMsn(), result.old);
  return {};
}

void PacketResponder::Nak(uint8_t syndrome) {
  naked_ = true;
  verdict_ = {syndrome, qp_.next_receive_psn};
}

void PacketResponder::End(const Response& rejected, uint32_t psn) {
  verdict_ = {NakSyndrome(rejected.syndrome), psn};
  end_ = rejected;
}

bool PacketResponder::Flush() {
  if (const auto refusal = answers_.Send()) End(Rejected(refusal->syndrome), refusal->psn);
  if (!answers_.empty()) return true;
  // An acknowledgement says that the data are there.
  if (!SettleData() && !end_)
    End(Rejected(Syndrome::kRemoteOperation), AddPsn(qp_.next_receive_psn, kPsnMask));
  if (verdict_) {
    Packet packet{.op = PacketOp::kAcknowledge, .dest_qpn = qp_.attributes.remote_qpn, .psn = verdict_->psn};
    packet.ack = {verdict_->syndrome, msn_};
    sink_.Send(qp_, packet, {});
    verdict_.reset();
  }
  if (end_) Fail(qp_, *end_);
  return false;
}

}  // namespace softhca
