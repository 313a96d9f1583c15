#pragma once

#include <cstdint>
#include <span>

#include "core/qp.hpp"
#include "dma/device_memory.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

/// Operands of an atomic, in host order. A plain atomic is a masked one with all mask bits set and no
/// boundary.
struct AtomicOperands {
  uint32_t bytes = 0;  ///< 4 or 8
  bool compare_swap = false;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint64_t swap_mask = 0;     ///< for compare and swap
  uint64_t compare_mask = 0;  ///< for compare and swap
  uint64_t boundary = 0;      ///< for fetch and add: top bit of each field
};

/// Destination of a datagram or of a DC initiator's message; the work queue entry names it, not the queue
/// pair.
struct Destination {
  AddressPath path{};
  uint32_t qpn = 0;
  uint32_t qkey = 0;           ///< for datagrams
  uint64_t dc_access_key = 0;  ///< for DC targets

  friend bool operator==(const Destination&, const Destination&) = default;
};

/// A request message as the requester sends it.
struct Request {
  mlx5::WqeOpcode opcode = mlx5::WqeOpcode::kNop;
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  std::span<const Bytes> local;  ///< payload to send, or memory for the response's payload
  uint64_t bytes = 0;            ///< size of the payload
  bool takes_response = true;    ///< false: a read or an atomic without access to the memory for its response
  mlx5::Be32 imm{};              ///< immediate data, or the key that a send with invalidate frees
  bool solicited = false;
  AtomicOperands atomic;
  Destination destination;  ///< for services that IsAddressedByEntry() names
  uint32_t srqn = 0;        ///< for XRC: shared receive queue to use

  /// Returns whether the peer sends data back: reads and atomics.
  bool fetches() const { return opcode == mlx5::WqeOpcode::kRdmaRead || atomic.bytes != 0; }
};

/// Result of a request at the responder.
struct Response {
  enum class Kind : uint8_t {
    kAcknowledged,
    kRepeated,    ///< acknowledged and not executed: it was executed before
    kRnr,         ///< no receive is posted: retry after `rnr_timer`
    kSilence,     ///< no response: retry after the timeout
    kRejected,    ///< the request fails with `syndrome`
    kLocalFault,  ///< the request fails: the requester's own memory is inaccessible
  };
  Kind kind = Kind::kAcknowledged;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  uint8_t rnr_timer = 0;  ///< IBTA code

  /// With kRejected: syndrome of the responder's own receive; kNone: the responder gets an event instead.
  mlx5::Syndrome receive_syndrome = mlx5::Syndrome::kNone;
  bool silent = false;  ///< with kRejected: the requester gets no answer, so its retries run out
};

constexpr Response Rejected(mlx5::Syndrome requester, mlx5::Syndrome receive = mlx5::Syndrome::kNone) {
  return {.kind = Response::Kind::kRejected, .syndrome = requester, .receive_syndrome = receive};
}

/// A send with invalidate that names a key which peers may not invalidate.
///
/// @source  IBTA 1.4, 9.9.6.3, class J: no NAK; so does Linux v6.12, drivers/infiniband/sw/rxe/rxe_resp.c
constexpr Response kRefusedInvalidation{
    .kind = Response::Kind::kRejected, .syndrome = mlx5::Syndrome::kRemoteAccess, .silent = true};
constexpr Response kRepeated{.kind = Response::Kind::kRepeated};
constexpr Response kSilence{.kind = Response::Kind::kSilence};
constexpr Response kLocalFault{.kind = Response::Kind::kLocalFault};

/// Carries requests from one queue pair to another.
class Link {
 public:
  virtual ~Link() = default;

  /// Executes `request` at the peer that `from` is connected to.
  virtual Response Deliver(const QueuePair& from, const Request& request) = 0;
};

}  // namespace softhca
