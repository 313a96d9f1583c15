#include "cm/connection.hpp"

#include <cerrno>

#include "wire/byte_order.hpp"

namespace softhca::cm {
namespace {

/// Packet lifetime in the fabric: 67 ms.
constexpr uint8_t kPacketLifetime = 14;
/// Local acknowledge delay: 0.27 s.
constexpr uint8_t kAckDelay = 16;
/// Time that a program may take to answer a request: 69 s. Also the longest that a peer may ask for: it may
/// ask again.
constexpr uint8_t kServiceTimeout = 24;
/// Interval between checks that the peer's process is alive.
constexpr uint64_t kWatchNs = 1'000'000'000;

/// Returns the acknowledge timeout: the round trip and the peer's acknowledge delay.
uint8_t AckTimeout(uint8_t peer_delay) {
  constexpr uint8_t kRoundTrip = kPacketLifetime + 1, kLongest = 31;
  return std::min(kLongest, static_cast<uint8_t>(std::max(kRoundTrip, peer_delay) + 1));
}

uint32_t Psn(uint32_t psn) { return psn & 0xffffff; }

}  // namespace

Connection::Connection(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message,
                       const Req& req)
    : Transaction(outlet, local_id, route), state_(State::kReqReceived) {
  set_transaction(message.transaction);
  set_remote_id(req.local_id);
  terms_ = {.remote_qpn = req.qpn,
            .send_psn = req.psn,
            .responder_resources = req.initiator_depth,
            .initiator_depth = req.responder_resources,
            .retry_count = req.retry_count,
            .rnr_retry_count = req.rnr_retry_count,
            .flow_control = req.flow_control,
            .peer_has_srq = req.srq,
            .mtu = static_cast<mlx5::Mtu>(req.mtu),
            .ack_timeout = req.ack_timeout};
}

bool Connection::Request(uint64_t service_id, const Offer& offer) {
  if (state_ != State::kIdle || remote_id()) return false;
  const DeviceConfig& device = route().hca->config();
  local_qpn_ = offer.qpn;
  terms_.responder_resources = offer.responder_resources;
  terms_.initiator_depth = offer.initiator_depth;
  terms_.retry_count = offer.retry_count;
  terms_.mtu = device.mtu;
  Req req{.local_id = local_id(),
          .service_id = service_id,
          .ca_guid = device.guid,
          .qpn = offer.qpn,
          .responder_resources = offer.responder_resources,
          .initiator_depth = offer.initiator_depth,
          .remote_response_timeout = kResponseTimeout,
          .flow_control = offer.flow_control,
          .psn = Psn(offer.psn),
          .local_response_timeout = kResponseTimeout,
          .retry_count = offer.retry_count,
          .mtu = static_cast<uint8_t>(device.mtu),
          .rnr_retry_count = offer.rnr_retry_count,
          .max_cm_retries = kRetries,
          .srq = offer.srq,
          .local_gid = route().source(),
          .remote_gid = route().destination,
          .hop_limit = 64,
          .ack_timeout = AckTimeout(kAckDelay)};
  Fill(req.private_data, offer.private_data);
  set_transaction(local_id());
  state_ = State::kReqSent;
  SendUntilAnswered(req);
  return true;
}

bool Connection::Reply(const Offer& offer) {
  if (state_ != State::kReqReceived) return false;
  local_qpn_ = offer.qpn;
  terms_.responder_resources = offer.responder_resources;
  terms_.initiator_depth = offer.initiator_depth;
  Rep rep{.local_id = local_id(),
          .remote_id = *remote_id(),
          .qpn = offer.qpn,
          .psn = Psn(offer.psn),
          .responder_resources = offer.responder_resources,
          .initiator_depth = offer.initiator_depth,
          .target_ack_delay = kAckDelay,
          .flow_control = offer.flow_control,
          .rnr_retry_count = offer.rnr_retry_count,
          .srq = offer.srq,
          .ca_guid = route().hca->config().guid};
  Fill(rep.private_data, offer.private_data);
  state_ = State::kRepSent;
  SendUntilAnswered(rep);
  return true;
}

bool Connection::Confirm() {
  if (state_ != State::kRepReceived) return false;
  SendRtu();
  Establish();
  return true;
}

bool Connection::Reject(uint16_t reason, std::span<const uint8_t> private_data) {
  if (state_ != State::kReqReceived && state_ != State::kRepReceived && state_ != State::kRepSent)
    return false;
  SendReject(reason, private_data);
  StopWaiting();
  state_ = State::kIdle;
  return true;
}

bool Connection::Disconnect() {
  if (state_ == State::kDreqReceived) {
    SendDrep();
    EnterTimewait();
    return true;
  }
  if (state_ != State::kEstablished) return false;
  state_ = State::kDreqSent;
  SendUntilAnswered(Dreq{local_id(), *remote_id(), terms_.remote_qpn});
  return true;
}

bool Connection::NoteEstablished() {
  if (state_ != State::kRepSent) return state_ == State::kEstablished;
  Establish();
  Notify({Event::Kind::kEstablished});
  return true;
}

void Connection::OnPeerLost() {
  if (state_ != State::kRepSent && state_ != State::kEstablished && state_ != State::kDreqSent) return;
  EnterTimewait();
  Notify({Event::Kind::kDisconnected, -ECONNRESET});
}

void Connection::OnMessage(const Message& message) {
  std::visit(
      [this](const auto& body) {
        if constexpr (requires { On(body); }) On(body);
      },
      message.body);
}

void Connection::On(const Req& /*req*/) {
  // Only repetitions arrive here.
  if (state_ == State::kReqReceived)
    Send(Mra{local_id(), *remote_id(), Answered::kReq, kServiceTimeout});
  else if (state_ == State::kRepSent)
    SendAgain();
  else if (rejection_)
    Send(*rejection_);
}

void Connection::On(const Mra& mra) {
  if (state_ == State::kReqSent || state_ == State::kRepSent)
    WaitFor(TimeoutNs(std::min(mra.service_timeout, kServiceTimeout)) + TimeoutNs(kResponseTimeout));
}

void Connection::On(const Rep& rep) {
  if (state_ == State::kEstablished) return SendRtu();  // the first one was lost
  if (state_ == State::kRepReceived)
    return Send(Mra{local_id(), *remote_id(), Answered::kRep, kServiceTimeout});
  if (state_ != State::kReqSent) return;
  StopWaiting();
  set_remote_id(rep.local_id);
  terms_.remote_qpn = rep.qpn;
  terms_.send_psn = rep.psn;
  terms_.responder_resources = rep.initiator_depth;
  terms_.initiator_depth = rep.responder_resources;
  terms_.rnr_retry_count = rep.rnr_retry_count;
  terms_.flow_control = rep.flow_control;
  terms_.peer_has_srq = rep.srq;
  terms_.ack_timeout = AckTimeout(rep.target_ack_delay);
  state_ = State::kRepReceived;
  Notify({.kind = Event::Kind::kReply, .private_data = rep.private_data});
}

void Connection::On(const Rtu& /*rtu*/) {
  if (state_ == State::kRepSent) NoteEstablished();
}

void Connection::On(const Rej& rej) {
  switch (state_) {
    case State::kReqSent:
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
      StopWaiting();
      state_ = State::kIdle;
      return Notify({Event::Kind::kRejected, rej.reason, rej.private_data});
    case State::kEstablished:  // the peer left before the RTU reached it
      EnterTimewait();
      return Notify({Event::Kind::kRejected, rej.reason, rej.private_data});
    case State::kDreqSent:
      EnterTimewait();
      return Notify({Event::Kind::kDisconnected});
    default:
      return;
  }
}

void Connection::On(const Dreq& dreq) {
  if (dreq.remote_qpn != local_qpn_ || !remote_id()) return;
  switch (state_) {
    case State::kIdle:
    case State::kTimewait:  // the answer was lost
      return SendDrep();
    case State::kDreqSent:
      SendDrep();
      EnterTimewait();
      return Notify({Event::Kind::kDisconnected, 0, dreq.private_data});
    case State::kRepSent:
    case State::kRepReceived:
    case State::kEstablished:
      StopWaiting();
      state_ = State::kDreqReceived;
      return Notify({Event::Kind::kDisconnected, 0, dreq.private_data});
    default:
      return;
  }
}

void Connection::On(const Drep& drep) {
  if (state_ != State::kDreqSent) return;
  EnterTimewait();
  Notify({Event::Kind::kDisconnected, 0, drep.private_data});
}

void Connection::On(const Lap& lap) { Send(Apr{local_id(), lap.local_id}); }

void Connection::OnExpiry() {
  switch (state_) {
    case State::kReqSent:
    case State::kRepSent:
      SendReject(static_cast<uint16_t>(RejectReason::kTimeout), {});
      state_ = State::kIdle;
      return Notify({Event::Kind::kUnreachable, -ETIMEDOUT});
    case State::kDreqSent:
      EnterTimewait();
      return Notify({Event::Kind::kDisconnected, -ETIMEDOUT});
    case State::kEstablished:
      return WatchPeer();
    case State::kTimewait:
      state_ = State::kIdle;
      return Notify({Event::Kind::kTimewaitExit});
    default:
      return;
  }
}

void Connection::Leave() {
  switch (state_) {
    case State::kReqSent:
      SendReject(static_cast<uint16_t>(RejectReason::kTimeout), {});
      break;
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
      SendReject(static_cast<uint16_t>(RejectReason::kConsumer), {});
      break;
    case State::kEstablished:
      Send(Dreq{local_id(), *remote_id(), terms_.remote_qpn});
      return EnterTimewait();
    case State::kDreqReceived:
      SendDrep();
      return EnterTimewait();
    case State::kDreqSent:
      return EnterTimewait();
    default:
      return;
  }
  StopWaiting();
  state_ = State::kIdle;
}

void Connection::SendReject(uint16_t reason, std::span<const uint8_t> private_data) {
  const bool answers_rep = state_ == State::kRepReceived;
  const bool unanswered = state_ == State::kReqSent || state_ == State::kRepSent;
  rejection_ =
      Rej{.local_id = local_id(),
          .remote_id = remote_id().value_or(0),
          .answered = answers_rep ? Answered::kRep : (unanswered ? Answered::kOther : Answered::kReq),
          .reason = reason};
  if (reason == static_cast<uint16_t>(RejectReason::kTimeout)) {
    // The requester's GUID: with the request's number, it lets the peer find the request.
    rejection_->info_bytes = sizeof(uint64_t);
    FieldWriter(rejection_->info).Put<sizeof(uint64_t)>(route().hca->config().guid);
  }
  Fill(rejection_->private_data, private_data);
  Send(*rejection_);
}

void Connection::SendRtu() { Send(Rtu{local_id(), *remote_id()}); }

void Connection::SendDrep() { Send(Drep{local_id(), *remote_id()}); }

void Connection::Establish() {
  StopWaiting();
  state_ = State::kEstablished;
  remote_process_ = RemoteProcess();
  if (remote_process_) WaitFor(kWatchNs);
}

void Connection::WatchPeer() {
  const auto process = RemoteProcess();
  if (remote_process_ == kUnknownProcess && process != 0u) remote_process_ = process;
  if (process != kUnknownProcess && (process == 0u || process != remote_process_)) return OnPeerLost();
  WaitFor(kWatchNs);
}

void Connection::EnterTimewait() {
  StopWaiting();
  state_ = State::kTimewait;
  WaitFor(TimeoutNs(std::min(terms_.ack_timeout, kServiceTimeout)));
}

}  // namespace softhca::cm
