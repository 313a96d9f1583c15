#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "cm/connection.hpp"
#include "cm/service_query.hpp"
#include "wire/management.hpp"

/// Communication management: setting up connections and finding services.
namespace softhca::cm {

/// Receives peers' requests.
class Listener {
 public:
  virtual ~Listener() = default;
  /// Returns whether a request to the listener's service is for this listener: of several listeners on one
  /// port, each has its own address.
  virtual bool Matches(std::span<const uint8_t> private_data) const = 0;
  /// Handles a request.
  ///
  /// @return  whether the listener accepts it: then the listener must answer and release it
  virtual bool OnRequest(Connection& connection, const Req& req) = 0;
  virtual bool OnRequest(ServiceQuery& query, const SidrReq& req) = 0;
};

/// Owns all connections and service queries of a process, and dispatches messages to them.
///
/// Not thread-safe: callers hold the engine's lock.
class ConnectionManager : public ManagementAgent, private Outlet {
 public:
  using Clock = std::function<uint64_t()>;
  using Processes = std::function<std::optional<uint64_t>(const Gid& address)>;

  /// @param first_id   first local id; differs between processes, so that late messages are not taken for new
  ///                   ones
  /// @param processes  as Outlet::ProcessAt(); null: unknown
  ConnectionManager(ManagementSink& sink, Clock clock, uint32_t first_id, Processes processes = nullptr)
      : sink_(sink), clock_(std::move(clock)), processes_(std::move(processes)), last_id_(first_id) {}

  Connection& MakeConnection(const Route& route);
  ServiceQuery& MakeQuery(const Route& route);
  void Release(Transaction& transaction);

  /// Delivers the requests for a service that match the listener.
  void Listen(uint64_t service_id, Listener& listener);
  void StopListening(const Listener& listener);

  void OnMad(Hca& hca, uint8_t port, const Flow& flow, const Mad& mad) override;
  void OnTime(uint64_t now_ns) override;
  uint64_t NextNs() const override { return next_ns_; }

 private:
  void Send(const Route& route, const Message& message) override;
  uint64_t NowNs() const override { return clock_(); }
  void Arm(uint64_t deadline_ns) override { next_ns_ = std::min(next_ns_, deadline_ns); }
  std::optional<uint64_t> ProcessAt(const Gid& address) const override {
    return processes_ ? processes_(address) : std::nullopt;
  }

  void Dispatch(const Route& route, const Message& message, const Req& req);
  void Dispatch(const Route& route, const Message& message, const SidrReq& req);
  void Dispatch(const Route& route, const Message& message, const SidrRep& rep);
  void Dispatch(const Route& route, const Message& message, const Rej& rej);
  template <class Body>
  void Dispatch(const Route& route, const Message& message, const Body& body);

  template <class Kind>
  Kind* FindByRemote(const Route& route, uint32_t remote_id);
  Transaction* FindByLocal(const Route& route, uint32_t local_id);
  Listener* FindListener(uint64_t service_id, std::span<const uint8_t> private_data) const;
  template <class Kind, class... Args>
  Kind& Make(const Route& route, const Args&... args);
  void Deliver(Transaction& transaction, const Message& message);
  void Reap(const Transaction& transaction);

  ManagementSink& sink_;
  Clock clock_;
  Processes processes_;
  uint32_t last_id_;
  uint64_t next_ns_ = UINT64_MAX;
  std::map<uint32_t, std::unique_ptr<Transaction>> transactions_;  ///< transactions by local id
  std::multimap<uint64_t, Listener*> listeners_;                   ///< listeners by service
};

}  // namespace softhca::cm
