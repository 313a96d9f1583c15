#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cm/manager.hpp"
#include "cm/service.hpp"
#include "ucma/file.hpp"
#include "ucma/host_ports.hpp"
#include "ucma/ip_port.hpp"
#include "ucma/routing.hpp"

namespace softhca::ucma {

class Device;

/// An rdma_cm_id: one end of a connection, or a listener.
///
/// Callers hold the engine's lock.
///
/// @errors  Errno, from every call: EINVAL if the call does not fit the state
class Id : private cm::User, private cm::Listener {
 public:
  struct Config {
    Device* device = nullptr;
    File* file = nullptr;
    uint32_t number = 0;
    uint64_t uid = 0;  ///< the program's own name; 0: none yet, so no events
    cm::PortSpace space = cm::PortSpace::kTcp;
  };
  explicit Id(const Config& config);
  ~Id() override;
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;

  /// @errors  Errno: EADDRNOTAVAIL if no device has the address, or all addresses are taken or asked for on a
  ///          port that is taken; EADDRINUSE
  void Bind(const IpPort& address);
  /// @errors  Errno: ENODEV if no device reaches it; EADDRNOTAVAIL if no port or source address is free
  void ResolveAddress(const std::optional<IpPort>& source, const IpPort& destination);
  void ResolveRoute();
  /// Returns whether the GID of the destination's program is known.
  bool KnowsPeer() const;
  /// @errors  Errno: EADDRINUSE, EADDRNOTAVAIL: the port is taken, see Bind()
  void Listen(uint32_t backlog);
  void Connect(const rdma_ucm_conn_param& param);
  /// Accepts a request; without `param.valid`, accepts the response to one's own request.
  ///
  /// @param uid  the program's name for the id from now on
  void Accept(const rdma_ucm_conn_param& param, uint64_t uid);
  void Reject(const rdma_ucm_reject& cmd);
  void Disconnect();
  void NoteEstablished();

  /// Returns the attributes that move a queue pair to a state.
  ///
  /// @param state  an ibv_qp_state
  ib_uverbs_qp_attr QueuePairAttributes(uint32_t state) const;
  rdma_ucm_query_route_resp Describe() const;
  /// Returns the event that tells how to attach a queue pair to a multicast group and to send to it.
  ///
  /// @errors  Errno: EINVAL if the id is not for datagrams, or has no device or more than a destination
  /// @source  Linux v6.1, drivers/infiniband/core/cma.c, cma_iboe_join_multicast()
  rdma_ucm_event_resp DescribeGroup(const IpPort& group) const;

  void set_traffic_class(uint8_t traffic_class) { traffic_class_ = traffic_class; }
  void set_ack_timeout(uint8_t timeout) { ack_timeout_ = timeout; }
  void set_reuses_address(bool reuses) { reuses_address_ = reuses; }
  /// Decides whether `::` leaves IPv4 alone. It counts for later calls of Bind().
  void set_only_own_family(bool only) { only_own_family_ = only; }

  uint32_t number() const { return config_.number; }
  File& file() const { return *config_.file; }
  void set_file(File& file) { config_.file = &file; }

  /// Counts an event that the program has read.
  void CountEvent(const Event& event);
  uint32_t events_reported() const { return events_reported_; }

 private:
  enum class State : uint8_t { kIdle, kBound, kAddressResolved, kRouteResolved, kListening, kConnecting };

  void OnEvent(const cm::Event& event) override;
  bool Matches(std::span<const uint8_t> private_data) const override;
  bool OnRequest(cm::Connection& connection, const cm::Req& req) override;
  bool OnRequest(cm::ServiceQuery& query, const cm::SidrReq& req) override;
  /// Makes the id for a transaction that a peer has begun, and reports it to the program.
  bool TakeRequest(cm::Transaction& transaction, std::span<const uint8_t> private_data);

  /// Finds the port to send from and the destination's GID.
  void UpdateRoute();
  bool IsDatagram() const { return config_.space == cm::PortSpace::kUdp; }
  /// Returns the bound address if it belongs to a device, not to all programs of the host.
  std::optional<Gid> OwnGid() const;
  /// Returns to which addresses a wildcard extends: that of IPv4 to its own family only, as on Linux.
  Families FamiliesOf(const IpPort& address) const;
  Event MakeEvent(EventKind kind, int32_t status) const;
  void Report(const Event& event);
  void Describe(ib_uverbs_ah_attr& path) const;
  /// Writes the state of the transaction into an event.
  void Describe(rdma_ucm_event_resp& response, std::span<const uint8_t> private_data) const;

  Config config_;
  uint32_t psn_;  ///< first PSN of the peer
  State state_ = State::kIdle;
  std::optional<IpPort> local_, remote_;
  std::optional<cm::Route> route_;
  PortClaim claim_;
  std::vector<Descriptor> announcement_;
  uint32_t backlog_ = 0;  ///< requests that may still be queued for the program
  // One of them is set from Connect() or a request on.
  cm::Connection* connection_ = nullptr;
  cm::ServiceQuery* query_ = nullptr;
  uint8_t traffic_class_ = 0;
  std::optional<uint8_t> ack_timeout_;
  bool reuses_address_ = false, only_own_family_ = false;
  uint32_t events_reported_ = 0;
};

}  // namespace softhca::ucma
