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
  while (last_id_ == 0 || transactions_.contains(last_id_));
  auto made = std::make_unique<Kind>(static_cast<Outlet&>(*this), last_id_, route, args...);
  Kind& transaction = *made;
  transactions_.emplace(last_id_, std::move(made));
  return transaction;
}

void ConnectionManager::Release(Transaction& transaction) {
  transaction.Release();
  Reap(transaction);
}

void ConnectionManager::Reap(const Transaction& transaction) {
  if (transaction.finished()) transactions_.erase(transaction.local_id());
}

void ConnectionManager::Listen(uint64_t service_id, Listener& listener) {
  listeners_.emplace(service_id, &listener);
}

void ConnectionManager::StopListening(const Listener& listener) {
  std::erase_if(listeners_, [&](const auto& entry) { return entry.second == &listener; });
}

Listener* ConnectionManager::FindListener(uint64_t service_id, std::span<const uint8_t> private_data) const {
  const auto [first, last] = listeners_.equal_range(service_id);
  const auto found =
      std::find_if(first, last, [&](const auto& entry) { return entry.second->Matches(private_data); });
  return found != last ? found->second : nullptr;
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
  std::vector<Transaction*> due;
  for (const auto& [id, transaction] : transactions_) {
    if (transaction->deadline_ns() <= now_ns) due.push_back(transaction.get());
  }
  for (Transaction* const transaction : due) {
    transaction->OnTime(now_ns);
    Reap(*transaction);
  }
  next_ns_ = UINT64_MAX;
  for (const auto& [id, transaction] : transactions_) Arm(transaction->deadline_ns());
}

void ConnectionManager::Send(const Route& route, const Message& message) {
  sink_.SendMad(*route.hca, route.port, route.gid_index, route.destination, Encode(message));
}

void ConnectionManager::Deliver(Transaction& transaction, const Message& message) {
  transaction.OnMessage(message);
  Reap(transaction);
}

template <class Kind>
Kind* ConnectionManager::FindByRemote(const Route& route, uint32_t remote_id) {
  for (const auto& [id, transaction] : transactions_) {
    if (transaction->remote_id() != remote_id || transaction->route().destination != route.destination)
      continue;
    if (auto* const found = dynamic_cast<Kind*>(transaction.get())) return found;
  }
  return nullptr;
}

Transaction* ConnectionManager::FindByLocal(const Route& route, uint32_t local_id) {
  const auto found = transactions_.find(local_id);
  if (found == transactions_.end() || found->second->route().destination != route.destination) return nullptr;
  return found->second.get();
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const Req& req) {
  if (auto* const known = FindByRemote<Connection>(route, req.local_id)) return Deliver(*known, message);
  const auto reject = [&](RejectReason reason) {
    Send(route,
         {message.transaction, Rej{.remote_id = req.local_id, .reason = static_cast<uint16_t>(reason)}});
  };
  constexpr uint8_t kReliableConnection = 0;
  if (req.service_type != kReliableConnection) return reject(RejectReason::kInvalidServiceType);
  Listener* const listener = FindListener(req.service_id, req.private_data);
  if (listener == nullptr) return reject(RejectReason::kInvalidServiceId);
  for (const auto& [id, transaction] : transactions_) {
    auto* const other = dynamic_cast<Connection*>(transaction.get());
    if (other != nullptr && other->route().destination == route.destination &&
        other->terms().remote_qpn == req.qpn) {
      other->OnPeerLost();
    }
  }
  auto& connection = Make<Connection>(route, message, req);
  if (!listener->OnRequest(connection, req)) Release(connection);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const SidrReq& req) {
  if (auto* const known = FindByRemote<ServiceQuery>(route, req.request_id)) return Deliver(*known, message);
  auto& query = Make<ServiceQuery>(route, message, req);
  Listener* const listener = FindListener(req.service_id, req.private_data);
  if (listener == nullptr) query.Answer(SidrStatus::kNotSupported, 0, 0, {});
  if (listener == nullptr || !listener->OnRequest(query, req)) Release(query);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const SidrRep& rep) {
  if (Transaction* const asked = FindByLocal(route, rep.request_id)) Deliver(*asked, message);
}

void ConnectionManager::Dispatch(const Route& route, const Message& message, const Rej& rej) {
  // A peer that gives up before it got an answer knows only its own id.
  Transaction* const known =
      rej.remote_id == 0 ? FindByRemote<Connection>(route, rej.local_id) : FindByLocal(route, rej.remote_id);
  if (known != nullptr) Deliver(*known, message);
}

template <class Body>
void ConnectionManager::Dispatch(const Route& route, const Message& message, const Body& body) {
  if (Transaction* const known = FindByLocal(route, body.remote_id)) return Deliver(*known, message);
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
