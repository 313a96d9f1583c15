#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "core/link.hpp"
#include "core/mkey.hpp"
#include "core/qp.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

/// The part of a send work queue entry that its completion needs.
struct SendEntry {
  uint16_t index = 0;  ///< index of its first WQEBB
  uint32_t wqebbs = 1;
  mlx5::WqeOpcode opcode = mlx5::WqeOpcode::kNop;
  bool signalled = false;
  uint32_t fetched_bytes = 0;  ///< bytes that a read or an atomic returns
};

/// A send work queue entry, fetched and checked.
class SendWqe {
 public:
  /// Fetches and checks the entry at `index` of the send queue. Index, opcode and length are valid afterwards
  /// even if the entry is not. For reads and atomics, see FindResponseMemory() as well.
  ///
  /// @param index      in WQEBBs
  /// @param available  WQEBBs that are posted from `index` on
  /// @return  the reason that the NIC cannot execute the entry, or kNone
  mlx5::Syndrome Read(const QueuePair& qp, uint32_t index, uint32_t available);

  /// Finds the memory for the response to a read or an atomic, and puts it into the request. Call it when the
  /// response arrives: only then does the NIC check keys and bounds, so a peer executes a request whose
  /// response has no place.
  ///
  /// @return  false if the queue pair may not write there
  bool FindResponseMemory(const QueuePair& qp);

  uint16_t index() const { return index_; }
  uint32_t wqebbs() const { return wqebbs_; }
  mlx5::WqeOpcode opcode() const { return request_.opcode; }
  SendEntry entry() const;
  /// Returns whether it is executed without the peer.
  bool local() const;
  /// Returns whether it starts only after all earlier reads and atomics.
  bool fenced() const { return fenced_; }
  /// Returns whether it is a wait whose condition does not hold yet.
  bool waits() const { return waits_; }
  const Request& request() const { return request_; }
  /// Returns what the entry does to a memory window; null if it is no such entry.
  const WindowChange* window_change() const { return window_change_ ? &*window_change_ : nullptr; }
  /// Returns what the entry does to an indirect key; null if it is no such entry.
  const LayoutChange* layout_change() const { return layout_change_ ? &*layout_change_ : nullptr; }

 private:
  void Fetch(const QueuePair& qp, uint32_t index);
  mlx5::Syndrome Decode(const QueuePair& qp);
  bool DecodeDestination(const QueuePair& qp);
  bool DecodeAtomic(uint8_t opmod);
  bool DecodeUmr();
  bool DecodeWindowChange(const mlx5::UmrControlSegment& control, const mlx5::MkeySegment& mkey);
  bool DecodeLayoutChange(const mlx5::UmrControlSegment& control, const mlx5::MkeySegment& mkey);
  bool DecodeLayout(uint32_t size, Layout& layout);
  bool DecodeWait(const QueuePair& qp, uint8_t opmod);
  mlx5::Syndrome DecodeData(const QueuePair& qp);
  template <class Segment>
  bool Next(Segment& segment);

  alignas(16) std::array<uint8_t, size_t{16} * mlx5::kWqebbBytes> raw_;
  Pieces local_;
  uint32_t cursor_ = 0, end_ = 0;
  uint32_t data_ = 0;  ///< offset of the first data segment
  uint16_t index_ = 0;
  uint32_t wqebbs_ = 1;
  bool signalled_ = false;
  bool waits_ = false;
  bool fenced_ = false;
  Request request_;
  std::optional<WindowChange> window_change_;
  std::optional<LayoutChange> layout_change_;
};

}  // namespace softhca
