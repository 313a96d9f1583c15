#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/qp.hpp"
#include "core/send_queue.hpp"
#include "core/wqe_reader.hpp"
#include "wire/message_ring.hpp"
#include "wire/packet.hpp"
#include "wire/packet_sink.hpp"
#include "wire/retry_timer.hpp"

namespace softhca {

/// Sends the messages of a connected queue pair, RC or UC, or of a DC initiator, as packets, and completes
/// them.
///
/// RC: after a NAK or a timeout it goes back to the oldest unacknowledged packet. It waits for receivers that
/// are not ready (RNR), and gives up after the queue pair's retry counts.
///
/// A DC initiator has a connection to one target at a time. Before it sends to another one, it waits until
/// all messages to the last one have been acknowledged. The new connection begins with the first request to
/// it.
///
/// Entries complete in order; `qp.send_index` is the oldest incomplete one. A queue pair that is not in RTS
/// is left alone: the caller flushes it.
///
/// Each packet is built from its entry in the program's queue, which is read again every time. As on the
/// card, the slot and the memory belong to the hardware until the entry completes.
class PacketRequester {
 public:
  PacketRequester(QueuePair& qp, PacketSink& sink) : qp_(qp), sink_(sink), timer_(qp.attributes) {}

  /// Runs the timers that are due, and fetches and sends posted entries, up to the window and a burst.
  ///
  /// @param may_time_out  false: responses may have arrived that nobody has handled yet, so no timer runs
  /// @return  whether it made progress
  bool Run(uint64_t now_ns, bool may_time_out = true);

  /// Handles an acknowledgement, a read response or an atomic response.
  void OnResponse(const Packet& packet, uint64_t now_ns);

  /// Takes time in which this process's engine could not run off the acknowledge timeout.
  void OnStall(uint64_t ns) { timer_.Delay(ns); }

  /// Returns when Run() is due for a timer; UINT64_MAX: never.
  uint64_t NextNs() const;

 private:
  bool Runs() const { return qp_.state == mlx5::QpState::kRts && !qp_.paused; }
  bool IsReliable() const { return softhca::IsReliable(qp_.config.service); }
  bool IsInitiator() const { return qp_.config.service == mlx5::ServiceType::kDci; }
  uint32_t Psn(uint64_t position) const;

  bool Step(uint64_t now_ns);
  bool Fetch();
  bool MustWait() const;
  bool IsConnected() const;
  void Connect();
  void Enqueue();
  bool Load(const Message& message);
  bool SendPacket(const Message& message, uint64_t now_ns);
  bool FailInTurn(const Message& message, mlx5::Syndrome fault);

  void OnTimer(uint64_t now_ns);
  void FailIfInjected();
  void OnAcknowledge(const AckHeader& ack, uint64_t position, uint64_t now_ns);
  void OnNak(uint8_t syndrome, uint64_t position);
  void OnReadResponse(const Packet& packet, uint64_t position);
  void OnAtomicResponse(const Packet& packet, uint64_t position);
  bool TakeResponse(uint64_t offset, std::span<const uint8_t> payload);
  bool AcknowledgeTo(uint64_t end);
  bool Reach(uint64_t position);
  void Advance(uint64_t to);
  void OnLostResponse();
  void Retry();
  void GoBack();
  void Complete(const WqeResult& result);

  QueuePair& qp_;
  PacketSink& sink_;
  SendWqe wqe_;                     ///< entry of the message at `loaded_`
  std::optional<uint64_t> loaded_;  ///< first position of the message in `wqe_`; valid within a call
  MessageRing messages_;
  uint32_t fetch_index_ = 0;  ///< index of the next entry to fetch
  uint32_t fetching_ = 0;     ///< reads and atomics in flight

  // Positions of packets: acked_ <= send_ <= sent_ <= next_.
  uint64_t acked_ = 0;         ///< oldest unacknowledged packet
  uint64_t send_ = 0;          ///< next packet to send
  uint64_t sent_ = 0;          ///< past the last packet ever sent
  uint64_t next_ = 0;          ///< past the last fetched message
  uint32_t send_message_ = 0;  ///< index of the message at `send_`

  /// A DC initiator's connection to the target of all messages in flight.
  struct DcConnection {
    Destination target;
    uint64_t number;
  };
  std::optional<DcConnection> connection_;

  RetryTimer timer_;
  bool requested_again_ = false;  ///< whether the response at `acked_`, taken as lost, was requested again
};

}  // namespace softhca
