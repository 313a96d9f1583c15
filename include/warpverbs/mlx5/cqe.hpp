#pragma once

#include <cstddef>
#include <cstdint>

#include "warpverbs/mlx5/endian.hpp"

/// Completion queue entries of 64 bytes.
///
/// @source  rdma-core v44, providers/mlx5/mlx5dv.h (`mlx5_cqe64`, `mlx5_err_cqe`); field by field in
/// tests/mlx5
namespace warpverbs::inline v0_2::mlx5 {

enum class CqeOpcode : uint8_t {
  kRequester = 0x0,
  kResponderWriteImm = 0x1,
  kResponderSend = 0x2,
  kResponderSendImm = 0x3,
  kResponderSendInval = 0x4,
  kResize = 0x5,  ///< last entry of a ring: the queue continues in another one
  kRequesterError = 0xd,
  kResponderError = 0xe,
  kInvalid = 0xf,  ///< never written by hardware: software fills a new queue with it
};

/// The header of a datagram, which its receive starts with, in a place of 40 bytes.
///
/// @source  Linux v6.1, drivers/infiniband/hw/mlx5/cq.c, handle_responder()
enum class CqeL3Header : uint8_t {
  kGrh = 0,   ///< RoCE v1, InfiniBand
  kIpv6 = 1,  ///< RoCE v2
  kIpv4 = 2,  ///< RoCE v2; in the last 20 bytes
};

/// Flag of `flags_rqpn`: the receive starts with a header. Bits 24 and 25 have its kind; on InfiniBand, where
/// it is a GRH, bits 24 to 27 have the service level.
inline constexpr uint32_t kCqeHasL3Header = 1u << 28;

/// A completion.
struct Cqe64 {
  uint8_t reserved0[17];
  uint8_t ml_path;
  uint8_t reserved1[4];
  Be16 slid;
  Be32 flags_rqpn;  ///< kCqeHasL3Header | CqeL3Header or service level << 24 | remote QP number
  uint8_t reserved2[4];
  Be32 srqn_uidx;  ///< the QP's user index with CQE version 1
  Be32 imm;        ///< immediate data, exactly as the sender put it
  uint8_t reserved3[4];
  Be32 byte_count;  ///< received, read or fetched bytes
  Be64 timestamp;
  Be32 sop_qpn;      ///< send opcode << 24 | qpn
  Be16 wqe_counter;  ///< index of the completed WQE's first WQEBB
  uint8_t signature;
  uint8_t op_own;  ///< CqeOpcode << 4 | solicited << 1 | owner
};
static_assert(sizeof(Cqe64) == 64 && offsetof(Cqe64, srqn_uidx) == 32 && offsetof(Cqe64, op_own) == 63);

/// The layout of a CQE with the opcode kRequesterError or kResponderError.
struct ErrorCqe64 {
  uint8_t reserved0[32];
  Be32 srqn_uidx;
  uint8_t reserved1[16];
  uint8_t hw_syndrome;
  uint8_t hw_syndrome_type;
  uint8_t vendor_syndrome;
  uint8_t syndrome;  ///< Syndrome
  Be32 sop_qpn;
  Be16 wqe_counter;
  uint8_t signature;
  uint8_t op_own;
};
static_assert(sizeof(ErrorCqe64) == 64 && offsetof(ErrorCqe64, syndrome) == 55);

/// The last 16 bytes hold everything that a poll needs: syndromes, counter, opcode.
inline constexpr uint32_t kCqeTailOffset = 48;

}  // namespace warpverbs::inline v0_2::mlx5
