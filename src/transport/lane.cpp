#include "lane.hpp"

#include <random>

#include "registration.hpp"
#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::transport {
namespace {

host::EndpointConfig Config(const TransportOptions& options) {
  return {.depth = options.depth,
          .cq_mode = host::CqMode::kRing,
          .receive_depth = options.receive_depth,
          .psn = std::random_device{}() & 0xffffff,
          .remote_atomic = false,
          .path = options.path,
          .retry = options.retry};
}

bool IsA(const device::Status& status, mlx5::Syndrome syndrome) {
  return !status.ok() && status.syndrome == static_cast<uint8_t>(syndrome);
}

/// The end of a ring is known modulo twice its depth alone. The NIC counts on.
uint32_t Onward(uint32_t taken, uint32_t end, uint32_t depth) {
  return taken + ((end - taken) & (2 * depth - 1));
}

}  // namespace

Lane::Lane(const host::Device& device, uint8_t nic, const TransportOptions& options)
    : nic_(nic),
      endpoint_(device, Config(options)),
      sends_(endpoint_.View()),
      completions_(endpoint_.CompletionView()),
      depth_(sends_.view().depth),
      transfers_(depth_) {}

void Lane::Connect(const host::EndpointInfo& peer, uint8_t peer_nic) {
  peer_ = peer;
  peer_nic_ = peer_nic;
  Start();
}

void Lane::Start() {
  host::EndpointInfo peer = *peer_;
  peer.psn = (peer.psn + greetings_) & 0xffffff;
  device::ReceiveQueueView view = endpoint_.ReceiveView();
  if (receives_) view.first_cqe = Onward(receives_->consumer_index(), view.first_cqe, view.cq.depth);
  receives_.emplace(view);
  while (receives_->Post({}).ok()) {
  }
  receives_->Submit();
  endpoint_.Connect(peer);
  for (uint32_t i = 0; i < hellos_; ++i) Say(Announcement::Kind::kHello);
}

/// A reset must not lose what has arrived, as the peer counts on its acknowledgement: it waits for the flush
/// of the receives, before which all that arrived has completed.
Lane::State Lane::state() const {
  const bool absent = IsA(failure_, mlx5::Syndrome::kTransportRetryExceeded);
  if (!hello_acknowledged_ && absent) return flushed() ? State::kAbsent : State::kConnecting;
  if (!hello_acknowledged_ && failure_.ok()) return State::kConnecting;  // its end will tell, if flushed
  if (!failure_.ok() || flushed()) return State::kFailed;
  return peer_ready_ ? State::kOpen : State::kConnecting;
}

void Lane::HelloAgain() {
  endpoint_.Reset();
  const device::CqView ring = endpoint_.CompletionView();
  completions_ = device::CompletionRing<Cpu>(
      ring, Onward(completions_.consumer_index(), host::EndOfRing(ring), ring.depth));
  posted_ = rung_ = completed_ = 0;
  failure_ = flush_ = {};
  receive_failed_ = false;
  Start();
}

void Lane::Say(Announcement::Kind kind) {
  const device::RemoteMemory nowhere{};  // an empty write touches no memory and asks for no key
  const uint32_t imm = Announcement{.kind = kind}.Encode();
  doorbell_ = sends_.PostWriteImm(posted_, nowhere, {}, Cpu::ToBe32(imm));
  Remember(nullptr);
  Ring();
}

/// The peer is there, but was not when the hello was sent. A message behind it shows it the gap, so that it
/// asks for the hello at once; else that came with the next timeout.
void Lane::Nudge() {
  ++hellos_;
  Say(Announcement::Kind::kHello);
}

void Lane::Remember(Transfer* transfer) { transfers_[posted_++ & (depth_ - 1)] = transfer; }

device::RemoteMemory Lane::Remote(const Transfer& transfer, uint64_t offset) const {
  return {transfer.remote + offset, Cpu::ToBe32(transfer.rkeys[peer_nic_])};
}

void Lane::PostPiece(Transfer& transfer, uint64_t offset, uint64_t bytes, const Announcement* announcement) {
  const device::RemoteMemory remote = Remote(transfer, offset);
  const device::LocalMemory local{transfer.local + offset, bytes,
                                  Cpu::ToBe32(transfer.registered->lkeys[nic_])};
  if (transfer.is_read) {
    doorbell_ = sends_.PostRead(posted_, remote, local);
  } else if (announcement == nullptr) {
    doorbell_ = sends_.PostWrite(posted_, remote, local);
  } else {
    doorbell_ = sends_.PostWriteImm(posted_, remote, local, Cpu::ToBe32(announcement->Encode()));
  }
  ++transfer.under_way;
  Remember(&transfer);
}

void Lane::PostVoid(Transfer& transfer, const Announcement& announcement) {
  doorbell_ = sends_.PostWriteImm(posted_, Remote(transfer, 0), {}, Cpu::ToBe32(announcement.Encode()));
  ++transfer.under_way;
  Remember(&transfer);
}

void Lane::Ring() {
  if (rung_ == posted_) return;
  sends_.UpdateSendDbrRecord(posted_);
  sends_.RingDoorbell(doorbell_);
  rung_ = posted_;
}

bool Lane::TakeSend(Transfer*& transfer) {
  const device::Status status = completions_.PollCqOnce();
  if (status.code == device::Code::kPending) return false;
  completions_.UpdateCqDbrRecord();
  if (!status.ok()) {
    Fail(status, false);
    return false;
  }
  transfer = transfers_[completed_++ & (depth_ - 1)];
  if (transfer == nullptr && !hello_acknowledged_) {
    hello_acknowledged_ = true;
    Say(Announcement::Kind::kReady);
  }
  return true;
}

bool Lane::TakeReceive(std::optional<Announcement>& announcement) {
  const device::Received received = receives_->PollOnce();
  if (received.status.code == device::Code::kPending) return false;
  receives_taken_ = true;
  if (!received.status.ok()) {
    flush_ = received.status;
    if (!IsA(received.status, mlx5::Syndrome::kFlushed)) Fail(received.status, true);
    return false;
  }
  const auto said = Announcement::Decode(mlx5::FromBe(received.imm));
  const bool greets = said.kind == Announcement::Kind::kHello || said.kind == Announcement::Kind::kReady;
  announcement = greets ? std::nullopt : std::optional(said);
  if (greets) ++greetings_;
  if (said.kind == Announcement::Kind::kReady) peer_ready_ = true;
  if (!hello_acknowledged_ && failure_.ok() && hellos_ == 1) Nudge();
  return true;
}

void Lane::Fail(const device::Status& status, bool receiving) {
  const bool says_more = IsA(failure_, mlx5::Syndrome::kFlushed) && !IsA(status, mlx5::Syndrome::kFlushed);
  if (!failure_.ok() && !says_more) return;
  failure_ = status;
  receive_failed_ = receiving;
}

void Lane::ReturnReceives() {
  if (!receives_taken_) return;
  receives_taken_ = false;
  while (receives_->Post({}).ok()) {
  }
  receives_->Submit();
}

std::string Lane::WhyFailed() const {
  const device::Status& cause = failure_.ok() ? flush_ : failure_;  // a peer's error shows as a flush alone
  return host::QueueError{.qpn = endpoint_.qpn(),
                          .peer = peer_,
                          .cq_mode = host::CqMode::kRing,
                          .receiving = receive_failed_ || failure_.ok(),
                          .syndrome = cause.syndrome,
                          .vendor_syndrome = cause.vendor_syndrome,
                          .opcode = cause.opcode,
                          .wqe_index = cause.wqe_index}
      .What();
}

}  // namespace warpverbs::transport
