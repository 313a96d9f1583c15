#pragma once

#include <array>
#include <cstdint>

#include "core/link.hpp"
#include "core/qp.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

/// What is left of a send work queue entry when it is done: all that its completion says.
struct SendEntry {
  uint16_t index = 0;  ///< of its first WQEBB
  uint32_t wqebbs = 1;
  mlx5::WqeOpcode opcode = mlx5::WqeOpcode::kNop;
  bool signalled = false;
  uint32_t fetched_bytes = 0;  ///< by a read or an atomic
};

/// A send work queue entry, fetched and checked.
class SendWqe {
 public:
  /// Fetches the entry at `index` of the send queue, in WQEBBs; `available` WQEBBs from there on are posted.
  ///
  /// @return  why the NIC cannot execute it, or kNone; index, opcode and length in WQEBBs are valid in any
  ///          case
  mlx5::Syndrome Read(const QueuePair& qp, uint32_t index, uint32_t available);

  uint16_t index() const { return index_; }
  uint32_t wqebbs() const { return wqebbs_; }
  mlx5::WqeOpcode opcode() const { return request_.opcode; }
  SendEntry entry() const;
  /// Whether it is executed without the peer.
  bool local() const;
  /// Whether the peer sends data back: reads and atomics.
  bool fetches() const;
  /// Whether it starts only after all earlier reads and atomics.
  bool fenced() const { return fenced_; }
  /// Whether it is one that waits, and what it waits for has not come.
  bool waits() const { return waits_; }
  const Request& request() const { return request_; }

 private:
  void Fetch(const QueuePair& qp, uint32_t index);
  mlx5::Syndrome Decode(const QueuePair& qp);
  bool DecodeDestination(const QueuePair& qp);
  bool DecodeAtomic(uint8_t opmod);
  bool DecodeWait(const QueuePair& qp, uint8_t opmod);
  mlx5::Syndrome DecodeData(const QueuePair& qp);
  template <class Segment>
  bool Next(Segment& segment);

  alignas(16) std::array<uint8_t, size_t{16} * mlx5::kWqebbBytes> raw_;
  std::array<Bytes, mlx5::kMaxSegments> local_;
  uint32_t cursor_ = 0, end_ = 0;
  uint16_t index_ = 0;
  uint32_t wqebbs_ = 1;
  bool signalled_ = false;
  bool waits_ = false;
  bool fenced_ = false;
  Request request_;
};

}  // namespace softhca
