#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cm/transaction.hpp"

namespace softhca::cm {

/// One side's queue pair and its attributes, as offered for a connection.
struct Offer {
  uint32_t qpn = 0;
  uint32_t psn = 0;                 ///< first PSN for the other side to send
  uint8_t responder_resources = 0;  ///< reads and atomics that it can serve at once
  uint8_t initiator_depth = 0;      ///< most reads and atomics that it will have in flight
  uint8_t retry_count = 0;          ///< in requests only; both sides use it
  uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  std::span<const uint8_t> private_data{};
};

/// Attributes for the local queue pair, as far as they are negotiated.
struct Terms {
  uint32_t remote_qpn = 0;
  uint32_t send_psn = 0;
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 0;
  uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool peer_has_srq = false;
  mlx5::Mtu mtu = mlx5::Mtu::k1024;
  uint8_t ack_timeout = 0;
};

/// One side's state machine for setting up and ending a connection of reliable queue pairs.
///
/// The active side calls Request(), gets kReply and calls Confirm(). The passive side gets the connection
/// from a listener and calls Reply(). A call that the state does not allow changes nothing and returns false.
///
/// @source  IBTA 1.4, 12.9
class Connection : public Transaction {
 public:
  using Transaction::Transaction;
  /// Creates the passive side's connection from a request.
  Connection(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message, const Req& req);

  bool Request(uint64_t service_id, const Offer& offer);
  bool Reply(const Offer& offer);
  bool Confirm();
  bool Reject(uint16_t reason, std::span<const uint8_t> private_data);
  /// Requests a disconnect, or answers the peer's request for one.
  bool Disconnect();
  /// Establishes the connection because data arrived before the peer's RTU.
  bool NoteEstablished();

  const Terms& terms() const { return terms_; }
  /// Ends the connection because the peer no longer knows it: the peer uses its queue pair for another
  /// connection, or its process has ended.
  void OnPeerLost();
  void OnMessage(const Message& message) override;

 private:
  enum class State : uint8_t {
    kIdle,
    kReqSent,
    kReqReceived,
    kRepSent,
    kRepReceived,
    kEstablished,
    kDreqSent,
    kDreqReceived,
    kTimewait,
  };

  void OnExpiry() override;
  void Leave() override;
  bool Lingers() const override { return state_ == State::kTimewait; }

  void On(const Req& req);
  void On(const Mra& mra);
  void On(const Rep& rep);
  void On(const Rtu& rtu);
  void On(const Rej& rej);
  void On(const Dreq& dreq);
  void On(const Drep& drep);
  void On(const Lap& lap);

  void SendReject(uint16_t reason, std::span<const uint8_t> private_data);
  void SendRtu();
  void SendDrep();
  void Establish();
  /// Checks periodically that the peer's process is alive: with a real NIC, the kernel of a killed peer would
  /// send the disconnect.
  void WatchPeer();
  void EnterTimewait();

  State state_ = State::kIdle;
  Terms terms_;
  uint32_t local_qpn_ = 0;
  std::optional<uint64_t> remote_process_;  ///< process that established it, if known
  std::optional<Rej> rejection_;            ///< the rejection that was sent
};

}  // namespace softhca::cm
