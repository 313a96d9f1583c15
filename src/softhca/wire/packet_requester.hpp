#pragma once

#include <cstdint>
#include <optional>

#include "core/qp.hpp"
#include "core/send_queue.hpp"
#include "core/wqe_reader.hpp"
#include "wire/message_ring.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"
#include "wire/retry_timer.hpp"

namespace softhca {

/// Sends the messages of a connected queue pair as packets, reliable or not, and completes them.
///
/// Reliable: goes back to the oldest packet that was not acknowledged after a NAK or a timeout, waits for
/// receivers that are not ready, and gives up after as many retries as the queue pair was given.
///
/// Entries complete in their order; `qp.send_index` is the oldest that has not. A queue pair that is not in
/// RTS is not its business: whoever runs it flushes it.
///
/// A packet is sent from its entry in the program's queue, read again each time: until it completes, its slot
/// and its memory are the hardware's, as on the card.
class PacketRequester {
 public:
  PacketRequester(QueuePair& qp, PacketSink& sink) : qp_(qp), sink_(sink), timer_(qp.attributes) {}

  /// Fetches and sends what is posted, as far as the window allows, up to a burst; lets timers run.
  ///
  /// @return  whether there was any progress
  bool Run(uint64_t now_ns);

  /// Takes an acknowledgement, a read response or an atomic's answer.
  void OnAnswer(const Packet& packet, uint64_t now_ns);

  /// When Run() has something to do of itself; UINT64_MAX: never.
  uint64_t NextNs() const;

 private:
  bool Runs() const { return qp_.state == mlx5::QpState::kRts && !qp_.held; }
  bool IsReliable() const { return qp_.config.service == mlx5::ServiceType::kRc; }
  uint32_t Psn(uint64_t position) const;

  bool Step(uint64_t now_ns);
  bool Fetch();
  bool MustWait() const;
  void Enqueue();
  bool Load(const Message& message);
  bool SendPacket(const Message& message, uint64_t now_ns);
  bool FailInTurn(const Message& message, mlx5::Syndrome fault);

  void OnTimer();
  void FailAsOrdered();
  void OnAcknowledge(const AckHeader& ack, uint64_t position, uint64_t now_ns);
  void OnNak(uint8_t syndrome, uint64_t position);
  void OnReadResponse(const Packet& packet, uint64_t position);
  void OnAtomicAnswer(const Packet& packet, uint64_t position);
  bool AcknowledgeTo(uint64_t end);
  bool Reach(uint64_t position);
  void Advance(uint64_t to);
  void OnLostAnswer();
  void Retry();
  void GoBack();
  void Complete(const Outcome& outcome);

  QueuePair& qp_;
  PacketSink& sink_;
  SendWqe wqe_;                     ///< the entry of `loaded_`
  std::optional<uint64_t> loaded_;  ///< first position of the message that `wqe_` holds; during a call only
  MessageRing messages_;
  uint32_t fetch_index_ = 0;  ///< of the next entry to fetch
  uint32_t fetching_ = 0;     ///< reads and atomics under way

  // Positions of packets: acked_ <= send_ <= sent_ <= next_.
  uint64_t acked_ = 0;         ///< the oldest that is not acknowledged
  uint64_t send_ = 0;          ///< the next to be sent
  uint64_t sent_ = 0;          ///< after the last that ever was
  uint64_t next_ = 0;          ///< of the next message: after all that was fetched
  uint32_t send_message_ = 0;  ///< index of the message of `send_`

  RetryTimer timer_;
  bool asked_again_ = false;  ///< for the answer that `acked_` waits for, as a later one came
};

}  // namespace softhca
