#pragma once

#include <cstdint>

/// Why a work request failed, from its error CQE.
///
/// @source  rdma-core v44, providers/mlx5/mlx5dv.h (`MLX5_CQE_SYNDROME_*`); meanings: IBTA 1.4, 9.9
/// and 11.6.2
namespace warpverbs::inline v0_2::mlx5 {

enum class Syndrome : uint8_t {
  kNone = 0x00,
  kLocalLength = 0x01,
  kLocalQpOperation = 0x02,
  kLocalProtection = 0x04,
  kFlushed = 0x05,
  kMemoryWindowBind = 0x06,
  kBadResponse = 0x10,
  kLocalAccess = 0x11,
  kRemoteInvalidRequest = 0x12,
  kRemoteAccess = 0x13,
  kRemoteOperation = 0x14,
  kTransportRetryExceeded = 0x15,
  kReceiverNotReadyRetryExceeded = 0x16,
  kRemoteAborted = 0x22,
};

/// Describes a syndrome, and where to look for its cause. Host only; never null.
constexpr const char* Describe(Syndrome syndrome) {
  switch (syndrome) {
    case Syndrome::kNone:
      return "no error";
    case Syndrome::kLocalLength:
      return "local length error: the message is longer than the port or the receive buffer takes";
    case Syndrome::kLocalQpOperation:
      return "local queue pair operation error: the NIC cannot execute this work queue entry";
    case Syndrome::kLocalProtection:
      return "local protection error: the lkey does not cover the local buffer";
    case Syndrome::kFlushed:
      return "flushed: an earlier work request put the queue pair in error";
    case Syndrome::kMemoryWindowBind:
      return "memory window bind error";
    case Syndrome::kBadResponse:
      return "bad response: the peer answered out of protocol";
    case Syndrome::kLocalAccess:
      return "local access error: the receive buffer's key does not allow the write";
    case Syndrome::kRemoteInvalidRequest:
      return "remote invalid request: the peer does not take this operation or length";
    case Syndrome::kRemoteAccess:
      return "remote access error: the rkey does not allow this operation on this range";
    case Syndrome::kRemoteOperation:
      return "remote operation error: the peer failed to carry out the request";
    case Syndrome::kTransportRetryExceeded:
      return "transport retries exceeded: the peer does not answer";
    case Syndrome::kReceiverNotReadyRetryExceeded:
      return "receiver-not-ready retries exceeded: the peer posted no receive";
    case Syndrome::kRemoteAborted:
      return "remote aborted";
  }
  return "unknown syndrome";
}

}  // namespace warpverbs::inline v0_2::mlx5
