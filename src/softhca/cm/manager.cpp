#include "cm/manager.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace softhca::cm {

Connection& ConnectionManager::MakeConnection(const Route& route) { return Make<Connection>(route); }
ServiceQuery& ConnectionManager::MakeQuery(const Route& route) { return Make<ServiceQuery>(route); }

template <class Kind, class... Args>
Kind& ConnectionManager::Make(const Route& route, const Args&... args) {
  do ++last_id_;
  while (last_id_ == 0 || exchanges_.contains(last_id_));
  auto made = std::make_unique<Kind>(static_cast<Outlet&>(*this), last_id_, route, args...);
  Kind& exchange = *made;
  exchanges_.emplace(last_id_, std::move(made));
  return exchange;
}

void ConnectionManager::Release(Exchange& exchange) {
  exchange.Release();
  Reap(exchange);
}

void ConnectionManager::Reap(const Exchange& exchange) {
  if (exchange.finished()) exchanges_.erase(exchange.local_id());
}

void ConnectionManager::Listen(uint64_t service_id, std::optional<Gid> gid, Listener& listener) {
  services_.emplace(service_id, Service{gid, &listener});
}

void ConnectionManager::StopListening(const Listener& listener) {
  std::erase_if(services_, [&](const auto& entry) { return entry.second.listener == &listener; });
}

Listener* ConnectionManager::FindListener(uint64_t service_id, const Gid& gid) const {
  Listener* found = nullptr;
  const auto [first, last] = services_.equal_range(service_id);
  for (auto entry = first; entry != last; ++entry) {
    const Service& service = entry->second;
    if (service.gid == gid) return service.listener;
    if (!service.gid) found = service.listener;
  }
  return found;
}

void ConnectionManager::OnMad(Hca& hca, uint8_t port, const Flow& flow, const Mad& mad) {
  const auto message = Decode(mad);
  if (!message) return;
  const auto& gids = hca.config().ports[port - 1u].gids;
  const auto own = std::find_if(gids.begin(), gids.end(), [&](const GidEntry& entry) {
    return entry.gid == flow.destination && entry.version == flow.version;
  });
  if (own == gids.end()) return;
  const Route route{&hca, port, static_cast<uint8_t>(own - gids.begin()), flow.source};
  std::visit([&](const auto& body) { Dispatch(route, *message, body); }, message->body);
}

void ConnectionManager::OnTime(uint64_t now_ns) {
  if (now_ns < next_ns_) return;
  std::vector<Exchange*> due;
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->deadline_ns() <= now_ns) due.push_back(exchange.get());
  }
  for (Exchange* const exchange : due) {
    exchange->OnTime(now_ns);
    Reap(*exchange);
  }
  next_ns_ = UINT64_MAX;
  for (const auto& [id, exchange] : exchanges_) Arm(exchange->deadline_ns());
}

void ConnectionManager::Send(const Route& route, const Message& message) {
  sink_.SendMad(*route.hca, route.port, route.gid_index, route.destination, Encode(message));
}

void ConnectionManager::Hand(Exchange& exchange, const Message& message) {
  exchange.OnMessage(message);
  Reap(exchange);
}

template <class Kind>
Kind* ConnectionManager::FindByRemote(const Route& route, uint32_t remote_id) {
  for (const auto& [id, exchange] : exchanges_) {
    if (exchange->remote_id() != remote_id || exchange->route().destination != route.destination) continue;
    if (auto* const found = dynamic_cast<Kind*>(exchange.get())) return found;
  }
  return nullptr;
}

Exchange* ConnectionManager::FindByLocal(const Route& route, uint32_t local_id) {
  const auto found = exchanges_.find(local_id);
  if (found == exchanges_.end() || found->second->route().destination != route.destination) return nullptr;
  return found->second.get();
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const Req& req) {
  if (auto* const known = FindByRemote<Connection>(route, req.local_id)) return Hand(*known, message);
  const auto reject = [&](RejectReason reason) {
    Send(route,
         {message.transaction, Rej{.remote_id = req.local_id, .reason = static_cast<uint16_t>(reason)}});
  };
  constexpr uint8_t kReliableConnection = 0;
  if (req.service_type != kReliableConnection) return reject(RejectReason::kInvalidServiceType);
  Listener* const listener = FindListener(req.service_id, route.source());
  if (listener == nullptr) return reject(RejectReason::kInvalidServiceId);
  for (const auto& [id, exchange] : exchanges_) {
    auto* const other = dynamic_cast<Connection*>(exchange.get());
    if (other != nullptr && other->route().destination == route.destination &&
        other->terms().remote_qpn == req.qpn) {
      other->OnForgotten();
    }
  }
  auto& connection = Make<Connection>(route, message, req);
  if (!listener->OnRequest(connection, req)) Release(connection);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const SidrReq& req) {
  if (auto* const known = FindByRemote<ServiceQuery>(route, req.request_id)) return Hand(*known, message);
  auto& query = Make<ServiceQuery>(route, message, req);
  Listener* const listener = FindListener(req.service_id, route.source());
  if (listener == nullptr) query.Answer(SidrStatus::kNotSupported, 0, 0, {});
  if (listener == nullptr || !listener->OnRequest(query, req)) Release(query);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const SidrRep& rep) {
  if (Exchange* const asked = FindByLocal(route, rep.request_id)) Hand(*asked, message);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const Rej& rej) {
  // A peer that gives up before it got an answer knows only its own id.
  Exchange* const known =
      rej.remote_id == 0 ? FindByRemote<Connection>(route, rej.local_id) : FindByLocal(route, rej.remote_id);
  if (known != nullptr) Hand(*known, message);
}

template <class Body>
void ConnectionManager::Dispatch(const Route& route, const Message& message, const Body& body) {
  if (Exchange* const known = FindByLocal(route, body.remote_id)) return Hand(*known, message);
  // Peers wait for an answer to these two, even from a side that no longer knows the connection.
  if constexpr (std::is_same_v<Body, Rep>) {
    Send(route,
         {message.transaction, Rej{.remote_id = body.local_id,
                                   .answered = Answered::kRep,
                                   .reason = static_cast<uint16_t>(RejectReason::kInvalidCommunicationId)}});
  } else if constexpr (std::is_same_v<Body, Dreq>) {
    Send(route, {message.transaction, Drep{body.remote_id, body.local_id}});
  }
}

}  // namespace softhca::cm
