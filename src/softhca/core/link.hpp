#pragma once

#include <cstdint>
#include <span>

#include "core/qp.hpp"
#include "dma/bytes.hpp"
#include "warpverbs/mlx5/syndrome.hpp"
#include "warpverbs/mlx5/wqe.hpp"

namespace softhca {

/// Operands of an atomic in host order; a plain one is a masked one with all bits set or no boundary.
struct AtomicOperands {
  uint32_t bytes = 0;  ///< 4 or 8
  bool compare_swap = false;
  uint64_t swap_add = 0;
  uint64_t compare = 0;
  uint64_t swap_mask = 0;     ///< compare and swap
  uint64_t compare_mask = 0;  ///< compare and swap
  uint64_t boundary = 0;      ///< fetch and add: a set bit is a field's top bit
};

/// Where a datagram goes: its entry says so, not its queue pair.
struct Destination {
  AddressPath path{};
  uint32_t qpn = 0;
  uint32_t qkey = 0;
};

/// A request message, as it leaves the requester.
struct Request {
  mlx5::WqeOpcode opcode = mlx5::WqeOpcode::kNop;
  uint64_t remote_address = 0;
  uint32_t rkey = 0;
  std::span<const Bytes> local;  ///< payload to send, or where the answer's payload goes
  uint64_t bytes = 0;            ///< of `local`
  mlx5::Be32 imm{};
  bool solicited = false;
  AtomicOperands atomic;
  Destination destination;  ///< of datagrams
};

/// How the responder took a request.
struct Response {
  enum class Kind : uint8_t {
    kAcknowledged,
    kReceiverNotReady,  ///< no receive is posted: try again after `rnr_timer`
    kSilence,           ///< nothing came back: try again after the timeout
    kRejected,          ///< the requester fails with `syndrome`
    kUnsent,            ///< the requester's own memory is gone: the responder has heard nothing
  };
  Kind kind = Kind::kAcknowledged;
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  uint8_t rnr_timer = 0;  ///< IBTA code
  /// With kRejected: the responder's own receive fails with it. kNone: it is told by an event.
  mlx5::Syndrome receive_syndrome = mlx5::Syndrome::kNone;
};

constexpr Response Rejected(mlx5::Syndrome requester, mlx5::Syndrome receive = mlx5::Syndrome::kNone) {
  return {.kind = Response::Kind::kRejected, .syndrome = requester, .receive_syndrome = receive};
}

constexpr Response kUnsent{.kind = Response::Kind::kUnsent};

/// What carries requests from one queue pair to another.
class Link {
 public:
  virtual ~Link() = default;

  /// Executes `request` at the peer that `from` is connected to.
  virtual Response Deliver(const QueuePair& from, const Request& request) = 0;
};

}  // namespace softhca
