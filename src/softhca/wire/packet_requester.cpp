#include "wire/packet_requester.hpp"

#include <algorithm>
#include <array>
#include <ctime>

#include "core/atomic.hpp"
#include "core/hca.hpp"
#include "core/packets.hpp"
#include "dma/copy.hpp"
#include "wire/request_packets.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

/// PSNs are compared by difference, so at most half of them may be in flight.
constexpr uint64_t kMaxPositions = (kPsnMask + 1) / 2;

/// Returns the maximum number of packets in flight.
uint32_t Window(mlx5::Mtu mtu) { return std::min(kWindowBytes / MtuBytes(mtu), kWindowPackets); }

/// Returns whether a packet requests an acknowledgement: often enough that the window never closes without
/// one on its way.
bool AsksForAck(const Message& message, uint32_t number, mlx5::Mtu mtu) {
  const uint32_t every = Window(mtu) / 4;
  return message.fetches || number + 1 == message.packets || (number + 1) % every == 0;
}

/// Returns a number for a DC connection. It is greater than any that this process has returned, and than
/// those of earlier processes, whose queue pairs may have had the same number and address.
uint64_t NextConnectionNumber() {
  static uint64_t last = 0;  // under the engine's lock
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  constexpr uint64_t kNsPerSecond = 1'000'000'000;
  last = std::max(last + 1,
                  static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec));
  return last;
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

bool PacketRequester::Run(uint64_t now_ns, bool may_time_out) {
  if (!Runs()) {
    if (qp_.paused) {  // packets in flight count as lost, without a retry
      GoBack();
      timer_.ForgetStall();
    }
    return false;
  }
  loaded_.reset();
  if (may_time_out && timer_.IsDue(now_ns)) OnTimer(now_ns);
  FailIfInjected();
  constexpr int kBurst = 128;
  bool progress = false;
  for (int i = 0; i < kBurst && Runs() && Step(now_ns); ++i) progress = true;
  if (messages_.empty() && PostedWqebbs(qp_, qp_.send_index) == 0) qp_.doorbell_pending = false;
  return progress;
}

uint64_t PacketRequester::NextNs() const { return Runs() ? timer_.NextNs() : UINT64_MAX; }

void PacketRequester::OnTimer(uint64_t now_ns) {
  if (timer_.IsPausing()) return timer_.Stop();
  const bool has_stalled = timer_.HasStalled();
  const RetryTimer::Timeout timeout = timer_.OnTimeout(sink_.PeerStalledAt(qp_), now_ns);
  Observer* const observer = qp_.hca->observer();
  if (timeout != RetryTimer::Timeout::kCounted) {
    if (!has_stalled && observer != nullptr) observer->OnStalledPeer(qp_);
    return timeout == RetryTimer::Timeout::kExcused ? timer_.AwaitResponse(now_ns) : GoBack();
  }
  if (observer != nullptr) observer->OnTimeout(qp_);
  Retry();
}

/// Fails the oldest message if the program has injected a failure into it.
void PacketRequester::FailIfInjected() {
  if (!Runs() || messages_.empty()) return;
  if (const auto result = FindInjectedFailure(qp_, messages_.front().entry.index)) Complete(*result);
}

/// Sends a packet or fetches an entry.
///
/// @return  false if neither is possible now
bool PacketRequester::Step(uint64_t now_ns) {
  if (timer_.IsPausing() || send_ - acked_ >= Window(qp_.attributes.mtu)) return false;
  if (send_ == next_) return Fetch();
  const Message& message = messages_[send_message_];
  return Load(message) && SendPacket(message, now_ns);
}

/// Fetches the next entry and adds it to the messages in flight. An entry that does not go to the peer
/// completes once no message is in flight.
bool PacketRequester::Fetch() {
  if (messages_.empty()) fetch_index_ = qp_.send_index;
  const uint32_t available = PostedWqebbs(qp_, fetch_index_);
  if (!qp_.doorbell_pending || available == 0) return false;
  loaded_.reset();
  const Syndrome fault = wqe_.Read(qp_, fetch_index_, available);
  WqeAction action = Classify(qp_, wqe_, fault);
  if (action.kind == WqeAction::Kind::kSend && !IsReliable() && wqe_.request().fetches()) {
    action = {WqeAction::Kind::kEnd, {Syndrome::kLocalQpOperation}};
  }
  switch (action.kind) {
    case WqeAction::Kind::kWait:
      return false;
    case WqeAction::Kind::kEnd:
      if (!messages_.empty()) return false;
      CompleteSend(qp_, wqe_.entry(), ExecuteLocally(qp_, wqe_, action.result));
      return true;
    case WqeAction::Kind::kSend:
      if (MustWait()) return false;
      Enqueue();
      return true;
  }
  return false;
}

/// Returns whether the entry just read must wait for earlier ones.
bool PacketRequester::MustWait() const {
  if (!IsConnected() && !messages_.empty()) return true;
  const uint32_t most = std::max<uint32_t>(qp_.attributes.max_reads_out, 1);  // 0 would wait forever
  if (wqe_.request().fetches() && fetching_ >= most) return true;
  if (wqe_.fenced() && fetching_ != 0) return true;
  return next_ - acked_ + PsnCount(wqe_.request(), qp_.attributes.mtu) > kMaxPositions && next_ != acked_;
}

/// Returns whether the entry just read goes to the peer that the queue pair is connected to.
bool PacketRequester::IsConnected() const {
  return !IsInitiator() || (connection_ && connection_->target == wqe_.request().destination);
}

/// Connects a DC initiator to the target of the entry just read.
void PacketRequester::Connect() {
  connection_ = {wqe_.request().destination, NextConnectionNumber()};
  qp_.attributes.path = connection_->target.path;
  qp_.attributes.remote_qpn = connection_->target.qpn;
}

void PacketRequester::Enqueue() {
  if (!IsConnected()) Connect();
  const Message message{.entry = wqe_.entry(),
                        .bytes = wqe_.request().bytes,
                        .first = next_,
                        .packets = PsnCount(wqe_.request(), qp_.attributes.mtu),
                        .fetches = wqe_.request().fetches()};
  messages_.Push(message);
  loaded_ = message.first;
  fetching_ += message.fetches ? 1 : 0;
  fetch_index_ += message.entry.wqebbs;
  next_ = message.end();
  qp_.next_send_psn = AddPsn(qp_.next_send_psn, message.packets);
}

/// Reads the entry of a message again.
///
/// @return  false if the entry is no longer valid; it fails once all earlier ones have completed
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

/// Fails a message that cannot be sent, if all earlier ones have completed.
///
/// @return  false
bool PacketRequester::FailInTurn(const Message& message, Syndrome fault) {
  if (message.first == messages_.front().first) Complete({fault});
  return false;
}

/// @return  false if the payload's memory is gone; the message fails once all earlier ones have completed
bool PacketRequester::SendPacket(const Message& message, uint64_t now_ns) {
  const mlx5::Mtu mtu = qp_.attributes.mtu;
  const auto number = static_cast<uint32_t>(send_ - message.first);
  RequestPacket cut = CutPacket(wqe_.request(), number, mtu);
  cut.packet.service = IsReliable() ? PacketService::kRc : PacketService::kUc;
  cut.packet.ack_request = IsReliable() && AsksForAck(message, number, mtu);
  cut.packet.dest_qpn = qp_.attributes.remote_qpn;
  cut.packet.psn = Psn(send_);
  if (connection_) {
    cut.packet.service = PacketService::kDc;
    cut.packet.dc = {.access_key = connection_->target.dc_access_key,
                     .connection = connection_->number,
                     .source_qpn = qp_.qpn,
                     .start_psn = Psn(acked_)};
  }
  if (!sink_.Send(qp_, cut.packet, {wqe_.request().local, cut.offset, cut.bytes})) {
    return FailInTurn(message, Syndrome::kLocalProtection);
  }

  send_ = message.fetches ? message.end() : send_ + 1;
  if (send_ == message.end()) ++send_message_;
  sent_ = std::max(sent_, send_);
  if (!IsReliable()) {
    AcknowledgeTo(send_);  // an unreliable peer does not acknowledge
  } else if (timer_.IsIdle()) {
    timer_.AwaitResponse(now_ns);
  }
  return true;
}

void PacketRequester::OnResponse(const Packet& packet, uint64_t now_ns) {
  const int32_t delta = PsnDelta(packet.psn, Psn(acked_));
  const uint64_t position = acked_ + static_cast<uint64_t>(std::max(delta, 0));
  // Ignore responses to packets that were acknowledged already, or never sent.
  if (!Runs() || !IsReliable() || delta < 0 || position >= sent_) return;
  loaded_.reset();
  const uint64_t before = acked_;
  if (packet.op == PacketOp::kAcknowledge) {
    OnAcknowledge(packet.ack, position, now_ns);
  } else if (packet.op == PacketOp::kAtomicAcknowledge) {
    OnAtomicResponse(packet, position);
  } else {
    OnReadResponse(packet, position);
  }
  if (acked_ == before || timer_.IsPausing()) return;
  timer_.Stop();
  if (send_ != acked_) timer_.AwaitResponse(now_ns);
}

void PacketRequester::OnAcknowledge(const AckHeader& ack, uint64_t position, uint64_t now_ns) {
  switch (ack.syndrome & aeth::kKindMask) {
    case aeth::kAck:
      if (!AcknowledgeTo(position + 1)) OnLostResponse();
      return;
    case aeth::kNak:
      return OnNak(ack.syndrome, position);
    case aeth::kRnrNak:
      if (timer_.IsPausing()) return;  // a repetition
      if (!Reach(position)) return;
      GoBack();
      if (!timer_.PauseForRnr(ack.syndrome & ~aeth::kKindMask, now_ns)) {
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
  if (!Runs() || timer_.IsPausing()) return;  // everything is sent again after the pause
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
  if (!TakeResponse(offset, packet.payload)) return Complete({Syndrome::kLocalProtection});
  Advance(position + 1);
}

void PacketRequester::OnAtomicResponse(const Packet& packet, uint64_t position) {
  if (!Reach(position)) return;
  const Message& message = messages_.front();
  if (!message.fetches || message.entry.opcode == mlx5::WqeOpcode::kRdmaRead) {
    return Complete({Syndrome::kBadResponse});
  }
  if (!Load(message)) return;
  const std::array<uint8_t, 8> response = EncodeAtomicResponse(packet.original, wqe_.request().atomic.bytes);
  const std::span old = std::span(response).first(wqe_.request().atomic.bytes);
  if (!TakeResponse(0, old)) return Complete({Syndrome::kLocalProtection});
  Advance(position + 1);
}

/// Writes a part of the loaded entry's response to its memory.
///
/// @return  false if the memory is inaccessible
bool PacketRequester::TakeResponse(uint64_t offset, std::span<const uint8_t> payload) {
  return wqe_.FindResponseMemory(qp_) && CopyPart(wqe_.request().local, offset, payload);
}

/// Marks all packets before `end` as acknowledged.
///
/// @return  false if a read or an atomic is among them: its response must have been lost
bool PacketRequester::AcknowledgeTo(uint64_t end) {
  while (acked_ < end && Runs()) {
    const Message& message = messages_.front();
    if (message.fetches) return false;
    Advance(std::min(end, message.end()));
  }
  return true;
}

/// Marks all packets before an answered one as acknowledged.
///
/// @return  whether that packet is now the oldest
bool PacketRequester::Reach(uint64_t position) {
  const bool reached = AcknowledgeTo(position);
  if (!reached) OnLostResponse();
  return reached && Runs();
}

/// Records that the peer has executed everything before a position.
void PacketRequester::Advance(uint64_t to) {
  acked_ = to;
  if (to == messages_.front().end()) Complete({});
  if (send_ < acked_) {
    send_ = acked_;
    send_message_ = messages_.begin_index();
  }
  requested_again_ = false;
  timer_.OnProgress();
}

/// Requests a lost response once more. Later responses may still be in flight, and cannot be told from those
/// to the repeated requests. If the repetition is lost too, the timeout detects it.
void PacketRequester::OnLostResponse() {
  if (requested_again_) return;
  GoBack();
  requested_again_ = true;
}

/// Counts a retry and goes back, after a timeout or a NAK without progress.
void PacketRequester::Retry() {
  if (!timer_.CountRetry()) return Complete({Syndrome::kTransportRetryExceeded});
  GoBack();
}

void PacketRequester::GoBack() {
  send_ = acked_;
  send_message_ = messages_.begin_index();
  requested_again_ = false;
  timer_.Stop();
}

/// Completes the oldest message.
void PacketRequester::Complete(const WqeResult& result) {
  const Message& message = messages_.front();
  CompleteSend(qp_, message.entry, result);
  fetching_ -= message.fetches ? 1 : 0;
  messages_.Pop();
}

}  // namespace softhca
