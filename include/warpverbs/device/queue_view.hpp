#pragma once

#include <cstdint>

/// What a kernel needs of a queue, by value. Filled by the host library; see host/endpoint.hpp.
namespace warpverbs::device {

/// The mutable words that all users of a queue share; each on a cache line of its own.
struct QueueControl {
  /// reserved << 32 | turn: the next free index, and the index below which every WQE is written and rung.
  /// Both count WQEBBs modulo 2^32: compare by difference, never by size.
  alignas(128) uint64_t tail;
  /// 0, or the first error: kErrorValid | syndrome << 24 | vendor syndrome << 16 | WQE index. Stays until
  /// reset.
  alignas(128) uint64_t error;
};
inline constexpr uint64_t kErrorValid = uint64_t{1} << 63;

/// A send queue and where its completions appear.
struct QueueView {
  uint8_t* sq;            ///< 64 B * depth
  uint64_t* doorbell;     ///< UAR register, or the host word of a CPU-rung doorbell
  uint32_t* dbrec;        ///< the send half of the doorbell record; nullptr where the device needs none
  const uint8_t* cqe;     ///< the collapsed CQE, or the base of the CQE ring; all 0xff before use
  QueueControl* control;  ///< shared mutable words
  uint32_t qpn_be;        ///< qpn << 8, big-endian
  uint32_t depth;         ///< in WQEBBs; a power of two, at most 32768
};
static_assert(sizeof(QueueView) == 48);

/// A ring of CQEs that its consumer drains in order.
struct CqView {
  const uint8_t* cqe;  ///< 64 B * depth
  uint32_t* dbrec;     ///< the consumer index in the CQ's doorbell record
  uint32_t depth;      ///< in CQEs; a power of two
};

}  // namespace warpverbs::device
