#pragma once

#include "warpverbs/arch/arch.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"
#include "warpverbs/mlx5/cqe.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

/// Decodes the last 16 bytes of a CQE, and the word that keeps a queue's first error.
namespace warpverbs::inline v0_2::device {

WARPVERBS_HOST_DEVICE constexpr mlx5::CqeOpcode Opcode(const arch::CqeTail& tail) {
  return static_cast<mlx5::CqeOpcode>(tail.high >> 60);
}

WARPVERBS_HOST_DEVICE constexpr bool OwnerBit(const arch::CqeTail& tail) {
  return (tail.high >> 56 & 1) != 0;
}

/// Returns the completed WQE's index modulo 2^16.
WARPVERBS_HOST_DEVICE constexpr uint16_t WqeCounter(const arch::CqeTail& tail) {
  return static_cast<uint16_t>((tail.high >> 32 & 0xff) << 8 | (tail.high >> 40 & 0xff));
}

WARPVERBS_HOST_DEVICE constexpr bool IsError(const arch::CqeTail& tail) {
  return Opcode(tail) == mlx5::CqeOpcode::kRequesterError || Opcode(tail) == mlx5::CqeOpcode::kResponderError;
}

/// Returns the index below which everything is complete, from a collapsed CQ's newest completion. It never
/// exceeds the true one.
///
/// A completion counts only 16 bits. Everything below `floor` is complete. A CQE that is filled with 0xff
/// reads as a completion of the WQE before index 0, so no case is special.
///
/// @param floor  lower bound of the result, which is exact if it is less than 2^16 above
WARPVERBS_HOST_DEVICE constexpr uint32_t CompletedBelow(const arch::CqeTail& tail, uint32_t floor) {
  return floor + static_cast<uint16_t>(WqeCounter(tail) + 1 - floor);
}

/// @pre  IsError(tail)
WARPVERBS_HOST_DEVICE constexpr uint64_t ErrorWord(const arch::CqeTail& tail) {
  const uint64_t syndrome = tail.low >> 56;
  const uint64_t vendor_syndrome = tail.low >> 48 & 0xff;
  const uint64_t opcode = tail.high & 0xff;
  return kErrorValid | opcode << 32 | syndrome << 24 | vendor_syndrome << 16 | WqeCounter(tail);
}

WARPVERBS_HOST_DEVICE constexpr Status ErrorStatus(uint64_t error_word) {
  return {.code = Code::kError,
          .syndrome = static_cast<uint8_t>(error_word >> 24),
          .vendor_syndrome = static_cast<uint8_t>(error_word >> 16),
          .opcode = static_cast<uint8_t>(error_word >> 32),
          .wqe_index = static_cast<uint16_t>(error_word)};
}

/// Ranks error words by what they tell: 0 is no error, 1 a poster that gave up, 2 a flush, kCause the cause
/// of the failure.
inline constexpr uint32_t kCause = 3;
WARPVERBS_HOST_DEVICE constexpr uint32_t ErrorRank(uint64_t error_word) {
  if (error_word == 0) return 0;
  const auto syndrome = static_cast<mlx5::Syndrome>(ErrorStatus(error_word).syndrome);
  return syndrome == mlx5::Syndrome::kNone ? 1 : syndrome == mlx5::Syndrome::kFlushed ? 2 : kCause;
}

}  // namespace warpverbs::inline v0_2::device
