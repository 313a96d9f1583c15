#pragma once

#include <cstdint>
#include <optional>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "wire/answer_queue.hpp"
#include "wire/inbound_message.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Executes the requests that come to a connected queue pair as packets, reliable or not, and answers them.
///
/// Requests are executed as they come, in the order of their PSNs; what there is to answer waits for Flush(),
/// so that one acknowledgement serves a batch of packets and a long read does not hold up other queue pairs.
/// Answers keep the order of the requests: a failure behind a read ends the connection when the read is
/// answered.
///
/// @source  IBTA 1.4, 9.7.4 to 9.7.5 (reliable), 9.8.2 (unreliable), 9.9.3 (errors)
class PacketResponder {
 public:
  PacketResponder(QueuePair& qp, PacketSink& sink) : qp_(qp), sink_(sink), message_(qp), answers_(qp, sink) {}

  /// @pre  the queue pair listens, and the packet came from its peer
  void OnRequest(const Packet& packet);

  /// Sends answers, up to a burst. To be called after each batch of requests.
  ///
  /// @pre     the queue pair listens
  /// @return  whether there are more: it is to be called again, whether or not anything arrives
  bool Flush();

 private:
  void OnReliable(const Packet& packet);
  void OnUnreliable(const Packet& packet);
  void OnExpected(const Packet& packet);
  void OnDuplicate(const Packet& packet);
  Response Execute(const Packet& packet);
  Response TakeRead(const Packet& packet);
  Response TakeAtomic(const Packet& packet);
  uint32_t NextMsn() const { return (msn_ + 1) & 0xffffff; }
  void Nak(uint8_t syndrome);
  void End(const Response& rejected, uint32_t psn);

  QueuePair& qp_;
  PacketSink& sink_;
  InboundMessage message_;
  AnswerQueue answers_;

  /// An acknowledgement or NAK that has yet to be sent, after all other answers.
  struct Verdict {
    uint8_t syndrome;
    uint32_t psn;
  };
  std::optional<Verdict> verdict_;
  /// Why the connection ends with the verdict.
  std::optional<Response> end_;
  std::optional<uint32_t> last_answer_;  ///< PSN of the last packet that answers the latest read or atomic
  uint32_t msn_ = 0;                     ///< messages taken, 24 bits
  bool naked_ = false;      ///< the expected packet was asked for; until it comes, there is nothing to say
  uint32_t too_early_ = 0;  ///< PSN of the furthest packet that was dropped while it was missing
};

}  // namespace softhca
