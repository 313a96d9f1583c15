#include "core/send_queue.hpp"

#include <cstring>

#include "core/cq.hpp"
#include "core/hca.hpp"
#include "warpverbs/mlx5/doorbell.hpp"

namespace softhca {

using mlx5::QpState;
using mlx5::Syndrome;

void FetchPosted(QueuePair& qp) {
  if (qp.sends.Fetch() || qp.state == QpState::kError) return;
  Raise(qp, QpEvent::kCatastrophic);
  EnterError(qp);
}

uint32_t PostedWqebbs(const QueuePair& qp, uint32_t index) { return qp.sends.Posted(index); }

bool BeginsWithKeyChange(const QueuePair& qp) {
  if (PostedWqebbs(qp, qp.send_index) == 0) return false;
  mlx5::CtrlSegment control;
  std::memcpy(&control, qp.sends.Entry(qp.send_index), sizeof control);
  return static_cast<mlx5::WqeOpcode>(mlx5::FromBe(control.opmod_index_opcode) & 0xff) ==
         mlx5::WqeOpcode::kUmr;
}

std::optional<WqeResult> FindInjectedFailure(const QueuePair& qp, uint16_t index) {
  const auto found = qp.injected_failures.find(index);
  if (found == qp.injected_failures.end()) return std::nullopt;
  return WqeResult{found->second.syndrome, found->second.vendor_syndrome};
}

WqeAction Classify(const QueuePair& qp, const SendWqe& wqe, Syndrome fault) {
  if (Observer* const observer = qp.hca->observer()) observer->OnFetch(qp, wqe.index(), wqe.request());
  const auto end = [](const WqeResult& result) { return WqeAction{WqeAction::Kind::kEnd, result}; };
  if (qp.state == QpState::kError) return end({Syndrome::kFlushed});
  if (qp.state != QpState::kRts) return end({Syndrome::kLocalQpOperation});
  if (const auto injected = FindInjectedFailure(qp, wqe.index())) return end(*injected);
  if (wqe.waits()) return {WqeAction::Kind::kWait};
  if (fault != Syndrome::kNone || wqe.local()) return end({fault});
  return {};
}

WqeResult ExecuteLocally(QueuePair& qp, const SendWqe& wqe, const WqeResult& result) {
  if (result.syndrome != Syndrome::kNone) return result;
  MkeyTable& mkeys = qp.hca->mkeys();
  bool changed = true;
  if (const auto* const change = wqe.window_change()) changed = mkeys.Change(*change, qp.config.pdn, qp.qpn);
  if (const auto* const change = wqe.layout_change()) changed = mkeys.ChangeLayout(*change, qp.config.pdn);
  return changed ? result : WqeResult{Syndrome::kMemoryWindowBind};
}

void CompleteSend(QueuePair& qp, const SendEntry& entry, const WqeResult& result) {
  const bool ok = result.syndrome == Syndrome::kNone;
  qp.send_index = (qp.send_index + entry.wqebbs) & mlx5::kQpDbrIndexMask;
  qp.injected_failures.erase(entry.index);
  if (Observer* const observer = qp.hca->observer()) observer->OnDone(qp, entry.index, result.syndrome);
  bool delivered = true;
  if (!ok || entry.signalled) {
    if (Observer* const observer = qp.hca->observer()) observer->OnCompletion(qp);
    delivered =
        qp.send_cq->Push({.opcode = ok ? mlx5::CqeOpcode::kRequester : mlx5::CqeOpcode::kRequesterError,
                          .qpn = qp.qpn,
                          .user_index = qp.config.user_index,
                          .wqe_opcode = static_cast<uint8_t>(entry.opcode),
                          .wqe_index = entry.index,
                          .bytes = entry.fetched_bytes,
                          .syndrome = result.syndrome,
                          .vendor_syndrome = result.vendor_syndrome});
  }
  if (!ok || !delivered) EnterError(qp);
}

}  // namespace softhca
