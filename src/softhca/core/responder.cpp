#include "core/responder.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <optional>

#include "core/hca.hpp"
#include "core/packets.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;
using mlx5::WqeOpcode;

constexpr Response kAcknowledged{};
constexpr Response kSilence{.kind = Response::Kind::kSilence};

/// A request that the responder may not carry out ends the connection on both sides.
Response Reject(QueuePair& target, Syndrome requester_syndrome) {
  if (target.config.on_event) {
    const bool access = requester_syndrome == Syndrome::kRemoteAccess;
    target.config.on_event(access ? QpEvent::kAccessError : QpEvent::kInvalidRequest);
  }
  EnterError(target);
  return {.kind = Response::Kind::kRejected, .syndrome = requester_syndrome};
}

/// @return  nothing if the queue pair or the key does not allow it
std::optional<Bytes> RemoteMemory(const QueuePair& target, const Request& request, uint32_t access) {
  if ((target.attributes.access & access) == 0) return std::nullopt;
  if (request.bytes == 0) return Bytes();  // names no memory, so its key is not looked at
  const Bytes memory = target.hca->mkeys().Translate(request.rkey, target.config.pdn, request.remote_address,
                                                     request.bytes, access);
  return memory.data() == nullptr ? std::nullopt : std::optional(memory);
}

Completion ReceiveCompletion(const QueuePair& target, uint16_t wqe_index, CqeOpcode opcode) {
  return {.opcode = opcode,
          .qpn = target.qpn,
          .user_index = target.config.user_index,
          .wqe_index = wqe_index,
          .remote_qpn = target.attributes.remote_qpn};
}

/// Fails a receive that cannot take the message, and with it the sender. The completion says it: no event.
Response FailReceive(QueuePair& target, uint16_t wqe_index, Syndrome local, Syndrome remote) {
  Completion completion = ReceiveCompletion(target, wqe_index, CqeOpcode::kResponderError);
  completion.syndrome = local;
  target.receive_cq->Push(completion);
  EnterError(target);
  return {.kind = Response::Kind::kRejected, .syndrome = remote};
}

ReceiveWqe TakeReceive(QueuePair& target) {
  const ReceiveWqe wqe = target.receives->Take();
  if (target.srq != nullptr) target.srq->CheckLimit();
  return wqe;
}

Response CompleteReceive(QueuePair& target, const Request& request, uint16_t wqe_index, CqeOpcode opcode) {
  Completion completion = ReceiveCompletion(target, wqe_index, opcode);
  completion.bytes = static_cast<uint32_t>(request.bytes);
  completion.imm = request.imm;
  completion.solicited = request.solicited;
  return target.receive_cq->Push(completion) ? kAcknowledged : Reject(target, Syndrome::kRemoteOperation);
}

/// How to answer a message that takes a receive; nothing if there is one to take.
std::optional<Response> RefuseWithoutReceive(QueuePair& target) {
  const uint32_t available = target.receives->Available();
  if (available != 0 && available <= target.receives->config().depth) return std::nullopt;
  // More receives than slots: the program has overwritten some, and which ones nobody knows.
  if (available != 0) return Reject(target, Syndrome::kRemoteOperation);
  // Without a receive queue there never will be one: end it, rather than let the peer try for ever.
  if (target.receives->config().depth == 0) return Reject(target, Syndrome::kRemoteInvalidRequest);
  return Response{.kind = Response::Kind::kReceiverNotReady, .rnr_timer = target.attributes.min_rnr_timer};
}

Response RespondToSend(QueuePair& target, const Request& request) {
  if (const auto refusal = RefuseWithoutReceive(target)) return *refusal;
  const ReceiveWqe wqe = TakeReceive(target);
  const uint32_t pdn = target.srq != nullptr ? target.srq->config.pdn : target.config.pdn;
  std::array<Bytes, ReceiveWqe::kMaxSegments> scatter;
  uint64_t left = request.bytes;
  uint32_t pieces = 0;
  for (; left != 0 && pieces < wqe.segments; ++pieces) {
    const mlx5::DataSegment& segment = wqe.segment[pieces];
    const uint32_t count = mlx5::FromBe(segment.bytes);
    const uint64_t bytes = std::min<uint64_t>(left, count == 0 ? mlx5::kMaxDataBytes : count);
    scatter[pieces] = target.hca->mkeys().Translate(mlx5::FromBe(segment.lkey), pdn,
                                                    mlx5::FromBe(segment.address), bytes, kAccessLocalWrite);
    if (scatter[pieces].data() == nullptr) {
      return FailReceive(target, wqe.index, Syndrome::kLocalProtection, Syndrome::kRemoteOperation);
    }
    left -= bytes;
  }
  if (left != 0)
    return FailReceive(target, wqe.index, Syndrome::kLocalLength, Syndrome::kRemoteInvalidRequest);
  Copy(std::span(scatter.data(), pieces), request.local);
  const bool imm = request.opcode == WqeOpcode::kSendImm;
  return CompleteReceive(target, request, wqe.index,
                         imm ? CqeOpcode::kResponderSendImm : CqeOpcode::kResponderSend);
}

Response RespondToWrite(QueuePair& target, const Request& request) {
  const auto memory = RemoteMemory(target, request, kAccessRemoteWrite);
  if (!memory) return Reject(target, Syndrome::kRemoteAccess);
  const bool imm = request.opcode == WqeOpcode::kRdmaWriteImm;
  if (imm) {
    if (const auto refusal = RefuseWithoutReceive(target)) return *refusal;
  }
  Copy(std::span(&*memory, 1), request.local);
  if (!imm) return kAcknowledged;
  return CompleteReceive(target, request, TakeReceive(target).index, CqeOpcode::kResponderWriteImm);
}

Response RespondToRead(QueuePair& target, const Request& request) {
  const auto memory = RemoteMemory(target, request, kAccessRemoteRead);
  if (!memory) return Reject(target, Syndrome::kRemoteAccess);
  Copy(request.local, std::span(&*memory, 1));
  return kAcknowledged;
}

/// Adds field by field: a carry out of a bit that is set in `boundary` is dropped.
uint64_t AddFields(uint64_t a, uint64_t b, uint64_t boundary) {
  return ((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary);
}

uint64_t Result(const AtomicOperands& operands, uint64_t old) {
  if (!operands.compare_swap) return AddFields(old, operands.swap_add, operands.boundary);
  if (((old ^ operands.compare) & operands.compare_mask) != 0) return old;
  return (old & ~operands.swap_mask) | (operands.swap_add & operands.swap_mask);
}

/// @return  the old value, in the memory's own byte order
template <class T>
T Exchange(uint8_t* memory, const AtomicOperands& operands) {
  std::atomic_ref word(*reinterpret_cast<T*>(memory));
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, static_cast<T>(Result(operands, old)), std::memory_order_acq_rel)) {
  }
  return old;
}

/// Old values of 8 bytes come in the byte order that the device is set to, the host's; those of 4 bytes come
/// big-endian whatever it is set to.
///
/// @source  openucx/ucx, src/uct/ib/mlx5/dv (`atomic_req_8B_endianness_mode`, `ext_atomic_arg_sizes_be`)
Response RespondToAtomic(QueuePair& target, const Request& request) {
  if (request.remote_address % request.atomic.bytes != 0)
    return Reject(target, Syndrome::kRemoteInvalidRequest);
  const auto memory = RemoteMemory(target, request, kAccessRemoteAtomic);
  if (!memory) return Reject(target, Syndrome::kRemoteAccess);
  std::array<uint8_t, 8> old{};
  if (request.atomic.bytes == 8) {
    const auto value = Exchange<uint64_t>(memory->data(), request.atomic);
    std::memcpy(old.data(), &value, sizeof value);
  } else {
    const mlx5::Be32 value = mlx5::ToBe32(Exchange<uint32_t>(memory->data(), request.atomic));
    std::memcpy(old.data(), &value, sizeof value);
  }
  const Bytes answer(old.data(), request.atomic.bytes);
  Copy(request.local, std::span(&answer, 1));
  return kAcknowledged;
}

Response Execute(QueuePair& target, const Request& request) {
  switch (request.opcode) {
    case WqeOpcode::kSend:
    case WqeOpcode::kSendImm:
      return RespondToSend(target, request);
    case WqeOpcode::kRdmaWrite:
    case WqeOpcode::kRdmaWriteImm:
      return RespondToWrite(target, request);
    case WqeOpcode::kRdmaRead:
      return RespondToRead(target, request);
    default:
      return RespondToAtomic(target, request);
  }
}

}  // namespace

Response Respond(QueuePair& target, const Origin& origin, const Request& request) {
  if (!Listens(target) || target.attributes.remote_qpn != origin.qpn) return kSilence;
  if (target.next_receive_psn != origin.psn) return kSilence;
  const uint32_t packets = PsnCount(request, origin.mtu);
  // A packet longer than the path MTU, or a short one that is not the last: either way the sizes must agree.
  const mlx5::Mtu mtu = target.attributes.mtu;
  if (origin.mtu != mtu && request.bytes > MtuBytes(std::min(origin.mtu, mtu))) {
    return Reject(target, Syndrome::kRemoteInvalidRequest);
  }
  const Response response = Execute(target, request);
  if (response.kind == Response::Kind::kAcknowledged) {
    target.next_receive_psn = (target.next_receive_psn + packets) & kPsnMask;
  }
  return response;
}

}  // namespace softhca
