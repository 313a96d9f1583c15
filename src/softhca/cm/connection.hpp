#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cm/exchange.hpp"

namespace softhca::cm {

/// What a side says of the queue pair that it brings into a connection.
struct Offer {
  uint32_t qpn = 0;
  uint32_t psn = 0;                 ///< at which the other side shall begin to send
  uint8_t responder_resources = 0;  ///< reads and atomics that it can answer at once
  uint8_t initiator_depth = 0;      ///< that it will have in flight at most
  uint8_t retry_count = 0;          ///< of a request only: both sides use it
  uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
  std::span<const uint8_t> private_data{};
};

/// With which attributes the own queue pair is to be connected, as far as both sides have spoken.
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

/// A connection of reliable queue pairs: how it comes to be and how it ends, from one side.
///
/// The active side calls Request(), hears kReply and calls Confirm(). The passive side gets it from a
/// listener and calls Reply(). Calls that do not fit the state change nothing.
///
/// @return  of all calls: whether they fit
/// @source  IBTA 1.4, 12.9
class Connection : public Exchange {
 public:
  using Exchange::Exchange;
  /// The passive side's, made by a request.
  Connection(Outlet& outlet, uint32_t local_id, const Route& route, const Message& message, const Req& req);

  bool Request(uint64_t service_id, const Offer& offer);
  bool Reply(const Offer& offer);
  bool Confirm();
  bool Reject(uint16_t reason, std::span<const uint8_t> private_data);
  /// Asks for the end, or agrees with the peer's wish for it.
  bool Disconnect();
  /// The first data came before the peer's last word.
  bool NoteEstablished();

  const Terms& terms() const { return terms_; }
  /// The peer has forgotten this connection: it uses its queue pair for another one, or its process has
  /// ended.
  void OnForgotten();
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
  /// A peer that is killed says nothing, where a kernel would speak for it: looks after it from time to time.
  void WatchPeer();
  void EnterTimewait();

  State state_ = State::kIdle;
  Terms terms_;
  uint32_t local_qpn_ = 0;
  std::optional<uint64_t> remote_process_;  ///< that established it, as far as it can be known
  std::optional<Rej> rejection_;            ///< what was sent
};

}  // namespace softhca::cm
