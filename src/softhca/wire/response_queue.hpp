#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/qp.hpp"
#include "core/remote_memory.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// Responses to a peer's reads and atomics, in the order of its requests. A read's bytes are fetched when
/// they are sent, so a queued response takes little memory whatever its length.
class ResponseQueue {
 public:
  ResponseQueue(const QueuePair& qp, PacketSink& sink) : qp_(qp), sink_(sink) {}

  /// Returns whether the peer may have one more request in flight.
  bool HasRoom() const;
  /// Queues the response to a read.
  ///
  /// @pre  HasRoom(); `psn` comes after all others
  void AddRead(uint32_t psn, uint32_t msn, const RemoteRange& range);
  /// Does the same for an atomic that has been executed; its result is kept for duplicates.
  void AddAtomic(uint32_t psn, uint32_t msn, uint64_t original);

  /// Queues the response to a repeated read, or a part of one, at its place in PSN order.
  void RepeatRead(uint32_t psn, uint32_t msn, const RemoteRange& range);
  /// Queues the response to a repeated atomic, if its result is still known.
  void RepeatAtomic(uint32_t psn, uint32_t msn);

  /// A read whose memory is gone.
  struct Refusal {
    uint32_t psn;
    mlx5::Syndrome syndrome;
  };
  /// Sends up to a burst of packets.
  ///
  /// @return  the failure that ends the connection, if any; the responses after it are dropped
  std::optional<Refusal> Send();

  bool empty() const { return responses_.empty(); }

 private:
  struct Entry {
    uint32_t psn;  ///< PSN of the next packet
    uint32_t packets;
    uint32_t msn;
    bool duplicate = false;  ///< response to a duplicate
    bool atomic = false;
    uint64_t original = 0;  ///< atomics: the value before the operation
    RemoteRange rest{};     ///< reads: range still to be sent
    bool started = false;
  };
  struct Result {
    uint32_t psn;
    uint64_t original;
  };

  size_t Count(bool duplicate) const;
  void Repeat(const Entry& entry);
  void SendAtomic(const Entry& entry);
  mlx5::Syndrome SendReadPacket(Entry& entry);

  const QueuePair& qp_;
  PacketSink& sink_;
  std::vector<Entry> responses_;  ///< in PSN order
  std::vector<Result> results_;   ///< ring of the latest atomics' results
  size_t oldest_result_ = 0;
};

}  // namespace softhca
