#include "wire/packet_requester.hpp"

#include <algorithm>
#include <array>

#include "core/atomic.hpp"
#include "core/hca.hpp"
#include "core/packets.hpp"
#include "dma/copy.hpp"
#include "wire/request_packets.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

/// Sequence numbers are compared by difference, so no more than half of them may be under way.
constexpr uint64_t kMaxPositions = (kPsnMask + 1) / 2;

/// How many packets may be under way.
uint32_t Window(mlx5::Mtu mtu) { return std::min(kWindowBytes / MtuBytes(mtu), kWindowPackets); }

/// Asks often enough for acknowledgements that the window never closes without one on its way.
bool AsksForAck(const Message& message, uint32_t number, mlx5::Mtu mtu) {
  const uint32_t every = Window(mtu) / 4;
  return message.fetches || number + 1 == message.packets || (number + 1) % every == 0;
}

Syndrome SyndromeOf(uint8_t nak) {
  switch (nak) {
    case aeth::kNakInvalidRequest:
      return Syndrome::kRemoteInvalidRequest;
    case aeth::kNakRemoteAccess:
      return Syndrome::kRemoteAccess;
    case aeth::kNakRemoteOperation:
      return Syndrome::kRemoteOperation;
    default:
      return Syndrome::kBadResponse;
  }
}

}  // namespace

uint32_t PacketRequester::Psn(uint64_t position) const {
  return static_cast<uint32_t>(qp_.next_send_psn - (next_ - position)) & kPsnMask;
}

bool PacketRequester::Run(uint64_t now_ns) {
  if (!Runs()) {
    if (qp_.held) GoBack();  // what is under way counts as lost, at nobody's cost
    return false;
  }
  loaded_.reset();
  if (timer_.IsDue(now_ns)) OnTimer();
  FailAsOrdered();
  constexpr int kBurst = 128;
  bool progress = false;
  for (int i = 0; i < kBurst && Runs() && Step(now_ns); ++i) progress = true;
  if (messages_.empty() && PostedWqebbs(qp_, qp_.send_index) == 0) qp_.rung = false;
  return progress;
}

uint64_t PacketRequester::NextNs() const { return Runs() ? timer_.NextNs() : UINT64_MAX; }

void PacketRequester::OnTimer() {
  if (timer_.IsPausing()) return timer_.Stop();
  if (Observer* const observer = qp_.hca->observer()) observer->OnTimeout(qp_);
  Retry();
}

/// Fails the oldest message if the program wishes it so: it has not passed yet.
void PacketRequester::FailAsOrdered() {
  if (!Runs() || messages_.empty()) return;
  if (const auto outcome = OrderedFailure(qp_, messages_.front().entry.index)) Complete(*outcome);
}

/// Sends a packet, or fetches an entry.
///
/// @return  false if nothing can be done now
bool PacketRequester::Step(uint64_t now_ns) {
  if (timer_.IsPausing() || send_ - acked_ >= Window(qp_.attributes.mtu)) return false;
  if (send_ == next_) return Fetch();
  const Message& message = messages_[send_message_];
  return Load(message) && SendPacket(message, now_ns);
}

/// Takes the next entry among the messages under way; or, once there are none, ends it if it never goes to
/// the peer.
bool PacketRequester::Fetch() {
  if (messages_.empty()) fetch_index_ = qp_.send_index;
  const uint32_t available = PostedWqebbs(qp_, fetch_index_);
  if (!qp_.rung || available == 0) return false;
  loaded_.reset();
  const Syndrome fault = wqe_.Read(qp_, fetch_index_, available);
  Verdict verdict = Judge(qp_, wqe_, fault);
  if (verdict.kind == Verdict::Kind::kSend && !IsReliable() && wqe_.fetches()) {
    verdict = {Verdict::Kind::kEnd, {Syndrome::kLocalQpOperation}};
  }
  switch (verdict.kind) {
    case Verdict::Kind::kWait:
      return false;
    case Verdict::Kind::kEnd:
      if (!messages_.empty()) return false;
      CompleteSend(qp_, wqe_.entry(), verdict.outcome);
      return true;
    case Verdict::Kind::kSend:
      if (MustWait()) return false;
      Enqueue();
      return true;
  }
  return false;
}

/// Whether the entry just read must let earlier ones finish first.
bool PacketRequester::MustWait() const {
  const uint32_t most = std::max<uint32_t>(qp_.attributes.max_reads_out, 1);  // 0 would be for ever
  if (wqe_.fetches() && fetching_ >= most) return true;
  if (wqe_.fenced() && fetching_ != 0) return true;
  return next_ - acked_ + PsnCount(wqe_.request(), qp_.attributes.mtu) > kMaxPositions && next_ != acked_;
}

void PacketRequester::Enqueue() {
  const Message message{.entry = wqe_.entry(),
                        .bytes = wqe_.request().bytes,
                        .first = next_,
                        .packets = PsnCount(wqe_.request(), qp_.attributes.mtu),
                        .fetches = wqe_.fetches()};
  messages_.Push(message);
  loaded_ = message.first;
  fetching_ += message.fetches ? 1 : 0;
  fetch_index_ += message.entry.wqebbs;
  next_ = message.end();
  qp_.next_send_psn = AddPsn(qp_.next_send_psn, message.packets);
}

/// Reads the entry of a message again.
///
/// @return  false if that is no longer possible; it fails when its turn to complete has come
bool PacketRequester::Load(const Message& message) {
  if (loaded_ == message.first) return true;
  loaded_.reset();
  Syndrome fault = wqe_.Read(qp_, message.entry.index, message.entry.wqebbs);
  const bool same = wqe_.opcode() == message.entry.opcode && wqe_.request().bytes == message.bytes;
  if (fault == Syndrome::kNone && !same) fault = Syndrome::kLocalQpOperation;
  if (fault != Syndrome::kNone) return FailInTurn(message, fault);
  loaded_ = message.first;
  return true;
}

/// Fails a message that cannot be sent, if its turn to complete has come.
///
/// @return  false
bool PacketRequester::FailInTurn(const Message& message, Syndrome fault) {
  if (message.first == messages_.front().first) Complete({fault});
  return false;
}

/// @return  false if its payload is gone; it fails when its turn to complete has come
bool PacketRequester::SendPacket(const Message& message, uint64_t now_ns) {
  const mlx5::Mtu mtu = qp_.attributes.mtu;
  const auto number = static_cast<uint32_t>(send_ - message.first);
  RequestPacket cut = CutPacket(wqe_.request(), number, mtu);
  cut.packet.service = IsReliable() ? PacketService::kRc : PacketService::kUc;
  cut.packet.ack_request = IsReliable() && AsksForAck(message, number, mtu);
  cut.packet.dest_qpn = qp_.attributes.remote_qpn;
  cut.packet.psn = Psn(send_);
  if (!sink_.Send(qp_, cut.packet, {wqe_.request().local, cut.offset, cut.bytes})) {
    return FailInTurn(message, Syndrome::kLocalProtection);
  }

  send_ = message.fetches ? message.end() : send_ + 1;
  if (send_ == message.end()) ++send_message_;
  sent_ = std::max(sent_, send_);
  if (!IsReliable()) {
    AcknowledgeTo(send_);  // nobody else will
  } else if (timer_.IsIdle()) {
    timer_.AwaitAnswer(now_ns);
  }
  return true;
}

void PacketRequester::OnAnswer(const Packet& packet, uint64_t now_ns) {
  const int32_t delta = PsnDelta(packet.psn, Psn(acked_));
  const uint64_t position = acked_ + static_cast<uint64_t>(std::max(delta, 0));
  // Answers to what was acknowledged long ago, or was never sent, are ghosts.
  if (!Runs() || !IsReliable() || delta < 0 || position >= sent_) return;
  loaded_.reset();
  const uint64_t before = acked_;
  if (packet.op == PacketOp::kAcknowledge) {
    OnAcknowledge(packet.ack, position, now_ns);
  } else if (packet.op == PacketOp::kAtomicAcknowledge) {
    OnAtomicAnswer(packet, position);
  } else {
    OnReadResponse(packet, position);
  }
  if (acked_ == before || timer_.IsPausing()) return;
  timer_.Stop();
  if (send_ != acked_) timer_.AwaitAnswer(now_ns);
}

void PacketRequester::OnAcknowledge(const AckHeader& ack, uint64_t position, uint64_t now_ns) {
  switch (ack.syndrome & aeth::kKindMask) {
    case aeth::kAck:
      if (!AcknowledgeTo(position + 1)) OnLostAnswer();
      return;
    case aeth::kNak:
      return OnNak(ack.syndrome, position);
    case aeth::kRnrNak:
      if (timer_.IsPausing()) return;  // the same again
      if (!Reach(position)) return;
      GoBack();
      if (!timer_.AwaitReceiver(ack.syndrome & ~aeth::kKindMask, now_ns)) {
        Complete({Syndrome::kReceiverNotReadyRetryExceeded});
      }
      return;
    default:
      return;  // reserved
  }
}

void PacketRequester::OnNak(uint8_t syndrome, uint64_t position) {
  if (syndrome != aeth::kNakPsnSequence) {
    if (Reach(position)) Complete({SyndromeOf(syndrome)});
    return;
  }
  const bool again = position == acked_;
  AcknowledgeTo(position);
  if (!Runs() || timer_.IsPausing()) return;  // all is sent again after the pause
  again ? Retry() : GoBack();
}

void PacketRequester::OnReadResponse(const Packet& packet, uint64_t position) {
  if (!Reach(position)) return;
  const Message& message = messages_.front();
  const uint64_t offset = (position - message.first) * MtuBytes(qp_.attributes.mtu);
  const bool last = position + 1 == message.end();
  const uint64_t expected = last ? message.bytes - offset : MtuBytes(qp_.attributes.mtu);
  const bool says_last = IsLast(packet.op) || IsOnly(packet.op);
  if (message.entry.opcode != mlx5::WqeOpcode::kRdmaRead || says_last != last ||
      packet.payload.size() != expected) {
    return Complete({Syndrome::kBadResponse});
  }
  if (!Load(message)) return;
  if (!CopyPart(wqe_.request().local, offset, packet.payload)) return Complete({Syndrome::kLocalProtection});
  Advance(position + 1);
}

void PacketRequester::OnAtomicAnswer(const Packet& packet, uint64_t position) {
  if (!Reach(position)) return;
  const Message& message = messages_.front();
  if (!message.fetches || message.entry.opcode == mlx5::WqeOpcode::kRdmaRead) {
    return Complete({Syndrome::kBadResponse});
  }
  if (!Load(message)) return;
  const std::array<uint8_t, 8> answer = AtomicAnswer(packet.original, wqe_.request().atomic.bytes);
  const std::span old = std::span(answer).first(wqe_.request().atomic.bytes);
  if (!CopyPart(wqe_.request().local, 0, old)) return Complete({Syndrome::kLocalProtection});
  Advance(position + 1);
}

/// Takes all packets before `end` as acknowledged.
///
/// @return  false if there is a read or atomic among them, whose answer must have been lost
bool PacketRequester::AcknowledgeTo(uint64_t end) {
  while (acked_ < end && Runs()) {
    const Message& message = messages_.front();
    if (message.fetches) return false;
    Advance(std::min(end, message.end()));
  }
  return true;
}

/// Takes all before an answered packet as acknowledged.
///
/// @return  whether that packet is the oldest now
bool PacketRequester::Reach(uint64_t position) {
  const bool reached = AcknowledgeTo(position);
  if (!reached) OnLostAnswer();
  return reached && Runs();
}

/// The peer has executed the oldest message up to a position.
void PacketRequester::Advance(uint64_t to) {
  acked_ = to;
  if (to == messages_.front().end()) Complete({});
  if (send_ < acked_) {
    send_ = acked_;
    send_message_ = messages_.begin_index();
  }
  asked_again_ = false;
  timer_.OnProgress();
}

/// Asks once again for an answer that was lost. More that come past it may be under way, and those to what is
/// sent again cannot be told from them: should that be lost too, the timeout finds it.
void PacketRequester::OnLostAnswer() {
  if (asked_again_) return;
  GoBack();
  asked_again_ = true;
}

/// Goes back after a timeout, or a NAK that shows no progress.
void PacketRequester::Retry() {
  if (!timer_.CountRetry()) return Complete({Syndrome::kTransportRetryExceeded});
  GoBack();
}

void PacketRequester::GoBack() {
  send_ = acked_;
  send_message_ = messages_.begin_index();
  asked_again_ = false;
  timer_.Stop();
}

/// Completes the oldest message.
void PacketRequester::Complete(const Outcome& outcome) {
  const Message& message = messages_.front();
  CompleteSend(qp_, message.entry, outcome);
  fetching_ -= message.fetches ? 1 : 0;
  messages_.Pop();
}

}  // namespace softhca
