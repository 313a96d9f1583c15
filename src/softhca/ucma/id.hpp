#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>

#include "cm/manager.hpp"
#include "cm/service.hpp"
#include "ucma/file.hpp"
#include "ucma/host_ports.hpp"
#include "ucma/ip_port.hpp"
#include "ucma/routing.hpp"

namespace softhca::ucma {

class Device;

/// What a program calls an rdma_cm_id: one end of a connection, or a listener.
///
/// The engine's lock is held in every call.
///
/// @errors  Errno, of all calls: EINVAL for one that does not fit the state
class Id : private cm::User, private cm::Listener {
 public:
  struct Config {
    Device* device = nullptr;
    File* file = nullptr;
    uint32_t number = 0;
    uint64_t uid = 0;  ///< the program's own name for it; 0: it has none yet, and is told nothing
    cm::PortSpace space = cm::PortSpace::kTcp;
  };
  explicit Id(const Config& config);
  ~Id() override;
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;

  /// @errors  Errno: EADDRNOTAVAIL, EADDRINUSE
  void Bind(const IpPort& address);
  /// @errors  Errno: ENODEV if no device leads there
  void ResolveAddress(const std::optional<IpPort>& source, const IpPort& destination);
  void ResolveRoute();
  /// Whether it is known where the destination's program listens.
  bool KnowsPeer() const;
  /// @errors  Errno: EADDRINUSE
  void Listen(uint32_t backlog);
  void Connect(const rdma_ucm_conn_param& wish);
  /// Grants what was asked for, or, without `wish.valid`, takes what was granted.
  ///
  /// @param uid  of the program, from now on
  void Accept(const rdma_ucm_conn_param& wish, uint64_t uid);
  void Reject(const rdma_ucm_reject& wish);
  void Disconnect();
  void NoteEstablished();

  /// What a queue pair needs to get into a state.
  ///
  /// @param state  an ibv_qp_state
  ib_uverbs_qp_attr QueuePairAttributes(uint32_t state) const;
  rdma_ucm_query_route_resp Describe() const;

  void set_traffic_class(uint8_t traffic_class) { traffic_class_ = traffic_class; }
  void set_ack_timeout(uint8_t timeout) { ack_timeout_ = timeout; }
  void set_reuses_address(bool reuses) { reuses_address_ = reuses; }

  uint32_t number() const { return config_.number; }
  File& file() const { return *config_.file; }
  void set_file(File& file) { config_.file = &file; }

  /// The program has got one of its events.
  void CountEvent(const Event& event);
  uint32_t events_reported() const { return events_reported_; }

 private:
  enum class State : uint8_t { kIdle, kBound, kAddressResolved, kRouteResolved, kListening, kConnecting };

  void OnEvent(const cm::Event& event) override;
  bool OnRequest(cm::Connection& connection, const cm::Req& req) override;
  bool OnRequest(cm::ServiceQuery& query, const cm::SidrReq& req) override;
  /// Makes the id of a transaction that a peer has begun, and tells the program of it.
  bool TakeRequest(cm::Transaction& transaction, std::span<const uint8_t> private_data);

  /// Finds the port to send from, and where to.
  void FindWay();
  bool IsDatagram() const { return config_.space == cm::PortSpace::kUdp; }
  /// Of the bound address, if it is a device's own and not one by which all programs of the host can be met.
  std::optional<Gid> OwnGid() const;
  Event MakeEvent(EventKind kind, int32_t status) const;
  void Tell(const Event& event);
  void Describe(ib_uverbs_ah_attr& path) const;
  /// Says how the transaction stands in an event.
  void Describe(rdma_ucm_event_resp& response, std::span<const uint8_t> private_data) const;

  Config config_;
  uint32_t psn_;  ///< at which the peer is to begin
  State state_ = State::kIdle;
  std::optional<IpPort> local_, remote_;
  std::optional<cm::Route> route_;
  PortClaim claim_;
  Descriptor announcement_;
  uint32_t backlog_ = 0;  ///< requests that may still wait for the program
  // One of them, from Connect() or a request on.
  cm::Connection* connection_ = nullptr;
  cm::ServiceQuery* query_ = nullptr;
  uint8_t traffic_class_ = 0;
  std::optional<uint8_t> ack_timeout_;
  bool reuses_address_ = false;
  uint32_t events_reported_ = 0;
};

}  // namespace softhca::ucma
