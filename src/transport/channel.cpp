#include "channel.hpp"

#include <random>

#include "host/queue/completion_queue.hpp"
#include "registration.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::inline v0_2::transport {
namespace {

host::EndpointConfig Config(const TransportConfig& config) {
  return {.depth = config.depth,
          .receive_depth = config.receive_depth,
          .psn = std::random_device{}() & 0xffffff,
          .remote_atomic = false,
          .path = config.path,
          .retry = config.retry};
}

bool IsA(const device::Status& status, mlx5::Syndrome syndrome) {
  return !status.ok() && status.syndrome == static_cast<uint8_t>(syndrome);
}

/// Returns the free-running index of a ring's end, which is known only modulo twice the depth.
uint32_t Unwrap(uint32_t taken, uint32_t end, uint32_t depth) {
  return taken + ((end - taken) & (2 * depth - 1));
}

}  // namespace

Channel::Channel(const host::Device& device, uint8_t nic, const TransportConfig& config)
    : nic_(nic),
      endpoint_(device, Config(config)),
      sends_(endpoint_.View()),
      completions_(endpoint_.CompletionView()),
      depth_(sends_.view().depth),
      transfers_(depth_) {}

void Channel::Connect(const host::EndpointInfo& peer, uint8_t peer_nic) {
  peer_ = peer;
  peer_nic_ = peer_nic;
  Start(endpoint_.ReceiveView());
}

void Channel::Start(const device::ReceiveQueueView& view) {
  host::EndpointInfo peer = *peer_;
  peer.psn = (peer.psn + handshakes_received_) & 0xffffff;
  receives_.emplace(view);
  while (receives_->Post({}).ok()) {
  }
  receives_->Submit();
  endpoint_.Connect(peer);
  for (uint32_t i = 0; i < hellos_; ++i) PostHandshake(ImmediateData::Kind::kHello);
  for (uint32_t i = 0; i < readies_; ++i) PostHandshake(ImmediateData::Kind::kReady);
}

// A reset must not lose messages that have arrived, because the peer has seen them acknowledged. So it waits
// for the flush of the receives: all messages that arrived have completed before it.
Channel::State Channel::state() const {
  const bool absent = IsA(failure_, mlx5::Syndrome::kTransportRetryExceeded);
  if (!ready_acknowledged_ && absent) return flushed() ? State::kPeerAbsent : State::kConnecting;
  if (!ready_acknowledged_ && failure_.ok())
    return State::kConnecting;  // if flushed, the completion of the hello or the ready decides
  if (!failure_.ok() || flushed()) return State::kFailed;
  return peer_ready_ ? State::kOpen : State::kConnecting;
}

void Channel::Restart() {
  const uint32_t received = receives_->consumer_index();
  endpoint_.Reset();
  const device::CqView ring = endpoint_.CompletionView();
  completions_ = device::CompletionRing<Cpu>(
      ring, Unwrap(completions_.consumer_index(), host::EndOfRing(ring), ring.depth));
  posted_ = submitted_ = completed_ = 0;
  failure_ = flush_ = {};
  receive_failed_ = false;
  refused_ = nullptr;
  device::ReceiveQueueView view = endpoint_.ReceiveView();
  view.first_cqe = Unwrap(received, view.first_cqe, view.cq.depth);
  Start(view);
}

void Channel::PostHandshake(ImmediateData::Kind kind) {
  const device::RemoteMemory nowhere{};  // an empty write touches no memory and needs no key
  const uint32_t imm = ImmediateData{.kind = kind}.Encode();
  doorbell_ = sends_.PostWriteImm(posted_, nowhere, {}, Cpu::ToBe32(imm));
  Record(nullptr);
  Ring();
}

// The peer is connected now, but was not when the hello was sent. A second message shows it the gap, so it
// asks for the hello at once and not after the next timeout.
void Channel::RepeatHello() {
  ++hellos_;
  PostHandshake(ImmediateData::Kind::kHello);
}

// After a gap was reported, a peer drops what comes before the missing message, and says so no more. If the
// network lets messages overtake each other, the dropped one may be the last, which only the timeout repeats.
// So each hello has a ready: one that follows the acknowledgement of the last hello shows the gap.
void Channel::PostReady() {
  ++readies_;
  PostHandshake(ImmediateData::Kind::kReady);
}

void Channel::Record(Transfer* transfer) { transfers_[posted_++ & (depth_ - 1)] = transfer; }

device::RemoteMemory Channel::Remote(const Part& part, uint64_t offset) const {
  return {part.remote + offset, Cpu::ToBe32(part.rkeys[peer_nic_])};
}

void Channel::PostPiece(Transfer& transfer, const Part& part, const PieceRange& range,
                        const ImmediateData* imm) {
  const device::RemoteMemory remote = Remote(part, range.offset);
  device::LocalMemory local{};  // an empty list has no memory
  if (range.bytes != 0)
    local = {part.local + range.offset, range.bytes, Cpu::ToBe32(part.registered->lkeys[nic_])};
  if (transfer.is_read) {
    doorbell_ = sends_.PostRead(posted_, remote, local);
  } else if (imm == nullptr) {
    doorbell_ = sends_.PostWrite(posted_, remote, local);
  } else {
    doorbell_ = sends_.PostWriteImm(posted_, remote, local, Cpu::ToBe32(imm->Encode()));
  }
  ++transfer.outstanding;
  Record(&transfer);
}

void Channel::PostCancelled(Transfer& transfer, const ImmediateData& imm) {
  doorbell_ = sends_.PostWriteImm(posted_, Remote(transfer.first, 0), {}, Cpu::ToBe32(imm.Encode()));
  ++transfer.outstanding;
  Record(&transfer);
}

void Channel::Ring() {
  if (submitted_ == posted_) return;
  sends_.UpdateSendDbrRecord(posted_);
  sends_.RingDoorbell(doorbell_);
  submitted_ = posted_;
}

bool Channel::PollSend(Transfer*& transfer) {
  const device::Status status = completions_.PollCqOnce();
  if (status.code == device::Code::kPending) return false;
  completions_.UpdateCqDbrRecord();
  if (!status.ok()) {
    // Sends complete in their order, so the error is that of the oldest piece.
    if (refused_ == nullptr && !IsA(status, mlx5::Syndrome::kFlushed))
      refused_ = transfers_[completed_ & (depth_ - 1)];
    Fail(status, false);
    return false;
  }
  transfer = transfers_[completed_++ & (depth_ - 1)];
  if (ready_acknowledged_) return true;
  if (completed_ > hellos_) {
    ready_acknowledged_ = true;
  } else if (readies_ < completed_) {
    PostReady();
  }
  return true;
}

bool Channel::PollReceive(std::optional<ImmediateData>& imm) {
  const device::Received received = receives_->PollOnce();
  if (received.status.code == device::Code::kPending) return false;
  receives_taken_ = true;
  if (!received.status.ok()) {
    flush_ = received.status;
    if (!IsA(received.status, mlx5::Syndrome::kFlushed)) Fail(received.status, true);
    return false;
  }
  const auto message = ImmediateData::Decode(mlx5::FromBe(received.imm));
  const bool is_handshake =
      message.kind == ImmediateData::Kind::kHello || message.kind == ImmediateData::Kind::kReady;
  imm = is_handshake ? std::nullopt : std::optional(message);
  if (is_handshake) ++handshakes_received_;
  if (!is_handshake) ready_acknowledged_ = true;  // data come from a peer that has the ready
  if (message.kind == ImmediateData::Kind::kReady) peer_ready_ = true;
  if (readies_ == 0 && failure_.ok() && hellos_ == 1) RepeatHello();
  return true;
}

void Channel::Fail(const device::Status& status, bool receiving) {
  const bool explains_more =
      IsA(failure_, mlx5::Syndrome::kFlushed) && !IsA(status, mlx5::Syndrome::kFlushed);
  if (!failure_.ok() && !explains_more) return;
  failure_ = status;
  receive_failed_ = receiving;
}

void Channel::ReturnReceives() {
  if (!receives_taken_) return;
  receives_taken_ = false;
  while (receives_->Post({}).ok()) {
  }
  receives_->Submit();
}

bool Channel::access_denied() const { return IsA(failure_, mlx5::Syndrome::kRemoteAccess); }

std::string Channel::DescribeFailure() const {
  const device::Status& cause =
      failure_.ok() ? flush_ : failure_;  // an error of the peer shows only as a flush here
  return host::QueueError{.qpn = endpoint_.qpn(),
                          .peer = peer_,
                          .receiving = receive_failed_ || failure_.ok(),
                          .syndrome = cause.syndrome,
                          .vendor_syndrome = cause.vendor_syndrome,
                          .opcode = cause.opcode,
                          .wqe_index = cause.wqe_index}
      .Describe();
}

}  // namespace warpverbs::inline v0_2::transport
