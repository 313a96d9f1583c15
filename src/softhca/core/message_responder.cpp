#include "core/message_responder.hpp"

#include <algorithm>
#include <optional>

#include "core/atomic.hpp"
#include "core/hca.hpp"
#include "core/packets.hpp"
#include "core/receive.hpp"
#include "core/remote_memory.hpp"
#include "dma/copy.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;
using mlx5::WqeOpcode;

constexpr Response kAcknowledged{};

Response CompleteReceive(QueuePair& target, const Request& request, CqeOpcode opcode) {
  return CompleteReceive(target, {.opcode = opcode,
                                  .bytes = static_cast<uint32_t>(request.bytes),
                                  .imm = request.imm,
                                  .solicited = request.solicited});
}

RemoteMemory FindRemoteMemory(const QueuePair& target, const Request& request, Access access) {
  return FindRemoteMemory(target, {request.remote_address, request.rkey, request.bytes}, access);
}

/// Returns the response to a request whose copy failed because one side's memory is gone.
Response Failed(std::span<const Bytes> target_memory) {
  return IsAccessible(target_memory) ? kLocalFault : Rejected(Syndrome::kRemoteAccess);
}

Response RespondToSend(QueuePair& target, const Request& request) {
  if (const auto refusal = RefuseWithoutReceive(target)) return *refusal;
  OpenReceive(target);
  const Scatter scatter = FindReceiveMemory(target, 0, request.bytes);
  if (scatter.fault != Syndrome::kNone) return RejectedReceive(scatter.fault);
  const bool invalidates = request.opcode == WqeOpcode::kSendInval;
  if (invalidates && !target.hca->mkeys().Revoke(mlx5::FromBe(request.imm), target.config.pdn, target.qpn)) {
    return kRefusedInvalidation;
  }
  if (!Copy(scatter.span(), request.local)) {
    return IsAccessible(scatter.span()) ? kLocalFault : RejectedReceive(Syndrome::kLocalProtection);
  }
  const bool imm = request.opcode == WqeOpcode::kSendImm;
  return CompleteReceive(target, request,
                         invalidates ? CqeOpcode::kResponderSendInval
                         : imm       ? CqeOpcode::kResponderSendImm
                                     : CqeOpcode::kResponderSend);
}

Response RespondToWrite(QueuePair& target, const Request& request) {
  const RemoteMemory memory = FindRemoteMemory(target, request, kAccessRemoteWrite);
  const bool imm = request.opcode == WqeOpcode::kRdmaWriteImm;
  if (memory.refusal != Syndrome::kNone) {
    const bool one_packet = request.bytes <= MtuBytes(target.attributes.mtu);
    return imm && one_packet ? RejectedWriteImm(target, memory.refusal) : Rejected(memory.refusal);
  }
  if (imm) {
    if (const auto refusal = RefuseWithoutReceive(target)) return *refusal;
  }
  if (!Copy(memory.span(), request.local)) return Failed(memory.span());
  return imm ? CompleteReceive(target, request, CqeOpcode::kResponderWriteImm) : kAcknowledged;
}

Response RespondToRead(QueuePair& target, const Request& request) {
  const RemoteMemory memory = FindRemoteMemory(target, request, kAccessRemoteRead);
  if (memory.refusal != Syndrome::kNone) return Rejected(memory.refusal);
  if (!request.takes_response) return kLocalFault;
  return Copy(request.local, memory.span()) ? kAcknowledged : Failed(memory.span());
}

Response RespondToAtomic(QueuePair& target, const Request& request) {
  const AtomicResult result = ExecuteAtomic(target, request.remote_address, request.rkey, request.atomic);
  if (result.refusal != Syndrome::kNone) return Rejected(result.refusal);
  if (!request.takes_response) return kLocalFault;
  auto old = EncodeAtomicResponse(result.old, request.atomic.bytes);
  const Bytes response(old.data(), request.atomic.bytes);
  return Copy(request.local, std::span(&response, 1)) ? kAcknowledged : kLocalFault;
}

Response Execute(QueuePair& target, const Request& request, mlx5::Mtu mtu) {
  // With unequal path MTUs, a packet would be too long, or short without being the last one.
  const mlx5::Mtu own = target.attributes.mtu;
  if (mtu != own && request.bytes > MtuBytes(std::min(mtu, own))) {
    return Rejected(Syndrome::kRemoteInvalidRequest);
  }
  if (!Serve(target, request.srqn)) return Rejected(Syndrome::kRemoteInvalidRequest);
  switch (request.opcode) {
    case WqeOpcode::kSend:
    case WqeOpcode::kSendImm:
    case WqeOpcode::kSendInval:
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
  const int32_t ahead = PsnDelta(origin.psn, target.next_receive_psn);
  if (ahead < 0 && !request.fetches()) return kRepeated;
  if (ahead != 0) return kSilence;
  const Response response = Execute(target, request, origin.mtu);
  if (response.kind == Response::Kind::kAcknowledged) {
    target.next_receive_psn = (target.next_receive_psn + PsnCount(request, origin.mtu)) & kPsnMask;
  } else if (response.kind == Response::Kind::kRejected) {
    Fail(target, response);
    if (response.silent) return kSilence;
  }
  return response;
}

}  // namespace softhca
