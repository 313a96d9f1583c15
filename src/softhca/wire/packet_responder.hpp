#pragma once

#include <cstdint>
#include <optional>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "wire/inbound_message.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"
#include "wire/response_queue.hpp"

namespace softhca {

/// Executes and answers the request packets of a connected queue pair, RC or UC.
///
/// Requests are executed on arrival, in PSN order. Responses wait for Flush(), so that one acknowledgement
/// serves a batch of packets and a long read does not delay other queue pairs. Responses keep the order of
/// the requests: a failure after a read ends the connection only when the read has been answered.
///
/// @source  IBTA 1.4, 9.7.4 to 9.7.5 (reliable), 9.8.2 (unreliable), 9.9.3 (errors)
class PacketResponder {
 public:
  PacketResponder(QueuePair& qp, PacketSink& sink)
      : qp_(qp), sink_(sink), message_(qp), responses_(qp, sink) {}

  /// Executes a request.
  ///
  /// @pre  the queue pair listens, and the packet came from its peer
  void OnRequest(const Packet& packet);

  /// Sends responses, up to a burst. Call it after each batch of requests.
  ///
  /// @pre     the queue pair listens
  /// @return  whether more are left: call it again even if nothing arrives
  bool Flush();

 private:
  void OnReliable(const Packet& packet);
  void OnUnreliable(const Packet& packet);
  void OnExpected(const Packet& packet);
  void OnDuplicate(const Packet& packet);
  Response Execute(const Packet& packet);
  Response TakeRead(const Packet& packet);
  Response TakeAtomic(const Packet& packet);
  void Observe(const Packet& executed) const;
  uint32_t NextMsn() const { return (msn_ + 1) & 0xffffff; }
  void Nak(uint8_t syndrome);
  void End(const Response& rejected, uint32_t psn);

  QueuePair& qp_;
  PacketSink& sink_;
  InboundMessage message_;
  ResponseQueue responses_;

  /// Acknowledgement or NAK still to be sent, after all responses.
  struct PendingAck {
    uint8_t syndrome;
    uint32_t psn;
  };
  std::optional<PendingAck> pending_ack_;
  /// Reason that the connection ends once the NAK is sent.
  std::optional<Response> failure_;
  std::optional<uint32_t> last_response_psn_;  ///< last PSN of the latest read's or atomic's response
  uint32_t msn_ = 0;                           ///< completed messages, 24 bits
  bool nak_sent_ = false;          ///< the expected packet was requested by a NAK and has not come yet
  uint32_t furthest_dropped_ = 0;  ///< newest PSN dropped while a packet was missing
};

}  // namespace softhca
