#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/cq.hpp"
#include "core/link.hpp"
#include "core/qp.hpp"
#include "dma/pieces.hpp"

/// Handling of the receive that a message consumes: `QueuePair::open_receive`, from the message's first
/// packet to its last.
namespace softhca {

/// Makes an XRC target receive into the shared queue that a request names, and check keys in that queue's
/// protection domain. Other queue pairs have one queue for good.
///
/// @return  false if the target's XRC domain has no such queue
/// @source  IBTA 1.4, annex A14
bool Serve(QueuePair& target, uint32_t srqn);

/// Returns how to refuse a message that needs a receive; nothing if one is available.
std::optional<Response> RefuseWithoutReceive(const QueuePair& target);

/// Takes the oldest receive, unless one is open.
///
/// @pre  RefuseWithoutReceive() returned nothing
void OpenReceive(QueuePair& target);

/// Memory that a part of a message is written to.
struct Scatter {
  mlx5::Syndrome fault = mlx5::Syndrome::kNone;  ///< reason that it cannot be written
  Pieces pieces{};

  std::span<const Bytes> span() const { return pieces.span(); }
};

/// Returns the open receive's memory for bytes [offset, offset + bytes) of the message.
Scatter FindReceiveMemory(const QueuePair& target, uint64_t offset, uint64_t bytes);

/// Returns the response to a message that the open receive cannot hold: both the receive and the sender fail.
///
/// @param fault  kLocalLength or kLocalProtection
Response RejectedReceive(mlx5::Syndrome fault);

/// Returns the response to a write with immediate data, in one packet, whose memory is refused. If the reason
/// is the key, the receive that the write would have completed fails, too. An unreliable peer's write is
/// dropped.
///
/// @source  IBTA 1.4, 9.9.3, and rdma-core, ibv_poll_cq(3): IBV_WC_LOC_ACCESS_ERR
Response RejectedWriteImm(QueuePair& target, mlx5::Syndrome refusal);

/// Completes the open receive; takes one first if none is open.
///
/// @param message  opcode, bytes, immediate data and solicited flag; for a datagram, also its source
Response CompleteReceive(QueuePair& target, Completion message);

/// Moves the queue pair to the error state after a rejected request. The open receive's completion, or an
/// event, reports the reason.
void Fail(QueuePair& target, const Response& rejected);

}  // namespace softhca
