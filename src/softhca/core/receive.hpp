#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/cq.hpp"
#include "core/link.hpp"
#include "core/qp.hpp"
#include "dma/bytes.hpp"

/// The receive that a message takes: `QueuePair::open_receive` from the message's first packet to its last.
namespace softhca {

/// Says how to answer a message that takes a receive; nothing if there is one to take.
std::optional<Response> RefuseWithoutReceive(const QueuePair& target);

/// Takes the oldest receive, unless one is open.
///
/// @pre  RefuseWithoutReceive() had nothing to say
void OpenReceive(QueuePair& target);

/// Where a part of a message goes.
struct Scatter {
  mlx5::Syndrome fault = mlx5::Syndrome::kNone;  ///< why it cannot go there
  uint32_t pieces = 0;
  std::array<Bytes, ReceiveWqe::kMaxSegments> piece{};

  std::span<const Bytes> span() const { return {piece.data(), pieces}; }
};

/// Finds the memory that the open receive has for bytes [offset, offset + bytes) of the message.
Scatter FindReceiveMemory(const QueuePair& target, uint64_t offset, uint64_t bytes);

/// Ends a message that the open receive cannot take: the receive fails, and with it the sender.
///
/// @param fault  kLocalLength or kLocalProtection
Response RejectedReceive(mlx5::Syndrome fault);

/// Completes the open receive, or takes one for it.
///
/// @param message  opcode, bytes, immediate data and whether it is solicited; of a datagram, whence it came
Response CompleteReceive(QueuePair& target, Completion message);

/// Ends the connection, as a rejected request does: the open receive's completion or an event says why.
void Fail(QueuePair& target, const Response& rejected);

}  // namespace softhca
