#include "cm/service_query.hpp"

#include <cerrno>

namespace softhca::cm {

ServiceQuery::ServiceQuery(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message,
                           const SidrReq& req)
    : Transaction(outlet, local_id, route), state_(State::kWasAsked), service_id_(req.service_id) {
  set_transaction(message.transaction);
  set_remote_id(req.request_id);
}

bool ServiceQuery::Ask(uint64_t service_id, std::span<const uint8_t> private_data) {
  if (state_ != State::kIdle) return false;
  SidrReq req{.request_id = local_id(), .service_id = service_id};
  Fill(req.private_data, private_data);
  set_transaction(local_id());
  state_ = State::kAsked;
  SendUntilAnswered(req);
  return true;
}

bool ServiceQuery::Answer(SidrStatus status, uint32_t qpn, uint32_t qkey,
                          std::span<const uint8_t> private_data) {
  if (state_ != State::kWasAsked) return false;
  answer_ = {.request_id = *remote_id(),
             .status = status,
             .qpn = status == SidrStatus::kValid ? qpn : 0,
             .service_id = service_id_,
             .qkey = status == SidrStatus::kValid ? qkey : 0};
  Fill(answer_.private_data, private_data);
  state_ = State::kAnswered;
  Send(answer_);
  return true;
}

void ServiceQuery::OnMessage(const Message& message) {
  if (std::holds_alternative<SidrReq>(message.body) && state_ == State::kAnswered) return Send(answer_);
  const auto* const rep = std::get_if<SidrRep>(&message.body);
  if (rep == nullptr || state_ != State::kAsked) return;
  StopWaiting();
  state_ = State::kIdle;
  if (rep->status != SidrStatus::kValid) {
    return Notify({Event::Kind::kUnreachable, static_cast<int32_t>(rep->status), rep->private_data});
  }
  qpn_ = rep->qpn;
  qkey_ = rep->qkey;
  Notify({Event::Kind::kEstablished, 0, rep->private_data});
}

void ServiceQuery::OnExpiry() {
  state_ = State::kIdle;
  Notify({Event::Kind::kUnreachable, -ETIMEDOUT});
}

void ServiceQuery::Leave() {
  if (state_ == State::kWasAsked) Answer(SidrStatus::kRejected, 0, 0, {});
  StopWaiting();
}

}  // namespace softhca::cm
