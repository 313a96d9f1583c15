#pragma once

#include <cstdint>

#include "warpverbs/mlx5/endian.hpp"

/// Doorbell records (ordinary memory that the NIC reads) and the UAR page (the NIC's registers).
///
/// @source  rdma-core v44, providers/mlx5/{mlx5dv.h,mlx5.c,qp.c,cq.c}
namespace warpverbs::inline v0_2::mlx5 {

/// A queue pair's doorbell record: the free-running producer indices, modulo 2^16.
struct QpDbr {
  Be32 receive;
  Be32 send;  ///< in WQEBBs
};
static_assert(sizeof(QpDbr) == 8);

/// A completion queue's doorbell record.
struct CqDbr {
  Be32 consumer_index;  ///< modulo 2^24
  Be32 arm;             ///< sequence << 28 | solicited only << 24 | consumer index
};
static_assert(sizeof(CqDbr) == 8);

inline constexpr uint32_t kQpDbrIndexMask = 0xffff;
inline constexpr uint32_t kCqDbrIndexMask = 0xffffff;
inline constexpr uint32_t kArmSolicitedOnly = 1u << 24;

inline constexpr uint32_t kUarPageBytes = 4096;
inline constexpr uint32_t kUarCqDoorbell = 0x20;     ///< arm word << 32 | cqn
inline constexpr uint32_t kUarSendDoorbell = 0x800;  ///< first of the send doorbell registers
inline constexpr uint32_t kUarSendDoorbellStep = 0x100;
inline constexpr uint32_t kUarSendDoorbells = 4;  ///< BlueFlame: two registers of two halves; dedicated: four

}  // namespace warpverbs::inline v0_2::mlx5
