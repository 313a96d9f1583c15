#include "core/receive.hpp"

#include <algorithm>

#include "core/data_segment.hpp"
#include "core/hca.hpp"

namespace softhca {
namespace {

using mlx5::CqeOpcode;
using mlx5::Syndrome;

/// Closes the open receive and writes its completion.
///
/// @return  false if the completion queue is overrun
bool Close(QueuePair& target, Completion completion) {
  completion.qpn = target.qpn;
  completion.user_index = target.config.user_index;
  completion.wqe_index = target.open_receive->index;
  if (target.config.service != mlx5::ServiceType::kUd) completion.remote_qpn = target.attributes.remote_qpn;
  target.open_receive.reset();
  return target.receive_cq->Push(completion);
}

}  // namespace

bool Serve(QueuePair& target, uint32_t srqn) {
  if (target.config.xrc != XrcRole::kTarget || target.open_receive) return true;
  SharedReceiveQueue* const srq = target.hca->FindSrq(srqn);
  if (srq == nullptr || srq->config.xrcd != target.config.xrcd) return false;
  target.srq = srq;
  target.receives = &srq->queue;
  target.receive_cq = target.hca->FindCq(srq->config.cqn);
  target.config.pdn = srq->config.pdn;
  target.config.user_index = srq->config.user_index;
  return true;
}

std::optional<Response> RefuseWithoutReceive(const QueuePair& target) {
  if (target.open_receive) return std::nullopt;
  const uint32_t available = target.receives->Available();
  if (available != 0 && available <= target.receives->config().depth) return std::nullopt;
  // More receives than slots: the program has overwritten some, and the NIC cannot tell which.
  if (available != 0) return Rejected(Syndrome::kRemoteOperation);
  // Without a receive queue no receive can ever be posted: fail, rather than let the peer retry forever.
  if (target.receives->config().depth == 0) return Rejected(Syndrome::kRemoteInvalidRequest);
  return Response{.kind = Response::Kind::kRnr, .rnr_timer = target.attributes.min_rnr_timer};
}

void OpenReceive(QueuePair& target) {
  if (target.open_receive) return;
  target.open_receive = target.receives->Take();
  if (target.srq != nullptr) target.srq->CheckLimit();
}

Scatter FindReceiveMemory(const QueuePair& target, uint64_t offset, uint64_t bytes) {
  const ReceiveWqe& wqe = *target.open_receive;
  const uint32_t pdn = target.srq != nullptr ? target.srq->config.pdn : target.config.pdn;
  Scatter scatter;
  for (uint32_t i = 0; i < wqe.segments && bytes != 0; ++i) {
    const mlx5::DataSegment& segment = wqe.segment[i];
    const uint64_t size = SizeOf(segment);
    if (offset >= size) {
      offset -= size;
      continue;
    }
    const uint64_t part = std::min(bytes, size - offset);
    const KeyRange range{mlx5::FromBe(segment.lkey), pdn, mlx5::FromBe(segment.address) + offset, part};
    if (!target.hca->mkeys().Translate(range, kAccessLocalWrite, scatter.pieces))
      return {.fault = Syndrome::kLocalProtection};
    offset = 0;
    bytes -= part;
  }
  if (bytes != 0) scatter.fault = Syndrome::kLocalLength;
  return scatter;
}

Response RejectedReceive(Syndrome fault) {
  const bool length = fault == Syndrome::kLocalLength;
  return Rejected(length ? Syndrome::kRemoteInvalidRequest : Syndrome::kRemoteOperation, fault);
}

Response RejectedWriteImm(QueuePair& target, Syndrome refusal) {
  const bool reliable = target.config.service == mlx5::ServiceType::kRc;
  if (!reliable || refusal != Syndrome::kRemoteAccess || RefuseWithoutReceive(target))
    return Rejected(refusal);
  OpenReceive(target);
  return Rejected(refusal, Syndrome::kLocalAccess);
}

Response CompleteReceive(QueuePair& target, Completion message) {
  OpenReceive(target);
  return Close(target, message) ? Response{} : Rejected(Syndrome::kRemoteOperation);
}

void Fail(QueuePair& target, const Response& rejected) {
  if (rejected.receive_syndrome != Syndrome::kNone) {
    Close(target, {.opcode = CqeOpcode::kResponderError, .syndrome = rejected.receive_syndrome});
  } else {
    const bool access = rejected.syndrome == Syndrome::kRemoteAccess;
    Raise(target, access ? QpEvent::kAccessError : QpEvent::kInvalidRequest);
  }
  EnterError(target);
}

}  // namespace softhca
