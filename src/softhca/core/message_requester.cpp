#include "core/message_requester.hpp"

#include <algorithm>
#include <utility>

#include "core/hca.hpp"
#include "core/packets.hpp"
#include "core/timers.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

/// Interval between reads of device memory; a read takes about 1/100 of it.
constexpr uint64_t kCheckIntervalNs = 1'000'000;

}  // namespace

bool MessageRequester::Run(QueuePair& qp, uint64_t now_ns) {
  if (qp.paused || (qp.retry.at_ns > now_ns && !qp.retry.now)) return false;
  constexpr int kBurst = 64;
  constexpr uint64_t kBurstBytes = 1 << 20;
  bool progress = false;
  uint64_t moved = 0;
  for (int i = 0; i < kBurst && moved < kBurstBytes; ++i) {
    const uint32_t available = PostedWqebbs(qp, qp.send_index);
    if (available == 0) {
      qp.doorbell_pending = false;
      break;
    }
    if (!Step(qp, available, now_ns)) break;
    progress = true;
    moved += wqe_.request().bytes;
  }
  return progress;
}

/// @return  false if the entry must wait
bool MessageRequester::Step(QueuePair& qp, uint32_t available, uint64_t now_ns) {
  const Syndrome fault = wqe_.Read(qp, qp.send_index, available);
  const WqeAction action = Classify(qp, wqe_, fault);
  if (action.kind == WqeAction::Kind::kWait) return false;
  if (action.kind == WqeAction::Kind::kEnd) {
    Finish(qp, ExecuteLocally(qp, wqe_, action.result));
    return true;
  }
  if (qp.retry.timeouts > qp.attributes.retry_count) {
    Finish(qp, {Syndrome::kTransportRetryExceeded});
    return true;
  }
  if (wqe_.request().fetches()) (void)wqe_.FindResponseMemory(qp);  // the request says whether it has any
  return OnResponse(qp, link_.Deliver(qp, wqe_.request()), now_ns);
}

bool MessageRequester::OnResponse(QueuePair& qp, const Response& response, uint64_t now_ns) {
  const QpAttributes& attributes = qp.attributes;
  switch (response.kind) {
    case Response::Kind::kAcknowledged:
    case Response::Kind::kRepeated:
      qp.next_send_psn = (qp.next_send_psn + PsnCount(wqe_.request(), attributes.mtu)) & kPsnMask;
      Finish(qp, {});
      return true;
    case Response::Kind::kRejected:
      Finish(qp, {response.syndrome});
      return true;
    case Response::Kind::kLocalFault:
      Finish(qp, {Syndrome::kLocalProtection});
      return true;
    case Response::Kind::kRnr:
      if (attributes.rnr_retry != kRnrRetryForever && qp.retry.rnr_retries++ == attributes.rnr_retry) {
        Finish(qp, {Syndrome::kReceiverNotReadyRetryExceeded});
        return true;
      }
      qp.retry.at_ns = now_ns + RnrTimerNs(response.rnr_timer);
      return false;
    case Response::Kind::kSilence:
      if (std::exchange(qp.retry.now, false)) return false;  // no timeout has passed
      if (Observer* const observer = qp.hca->observer()) observer->OnTimeout(qp);
      if (attributes.ack_timeout != 0) ++qp.retry.timeouts;  // code 0 waits forever
      qp.retry.at_ns = now_ns + AckTimeoutNs(attributes.ack_timeout != 0 ? attributes.ack_timeout : 8);
      return false;
  }
  return false;
}

void MessageRequester::Finish(QueuePair& qp, const WqeResult& result) {
  qp.retry = {};
  CompleteSend(qp, wqe_.entry(), result);
}

bool MessageRequester::FlushReceives(QueuePair& qp, uint64_t now_ns) {
  if (now_ns >= qp.next_receive_check_ns) {
    qp.next_receive_check_ns = now_ns + kCheckIntervalNs;
    (void)qp.own_receives.Fetch();  // freed memory needs no flush
  }
  const auto flush = [&](const ReceiveWqe& wqe) {
    qp.receive_cq->Push({.opcode = mlx5::CqeOpcode::kResponderError,
                         .qpn = qp.qpn,
                         .user_index = qp.config.user_index,
                         .wqe_index = wqe.index,
                         .syndrome = Syndrome::kFlushed});
  };
  const uint32_t posted = std::min(qp.own_receives.Known(), qp.own_receives.config().depth);
  if (posted == 0 && !qp.open_receive) return false;
  if (qp.open_receive) flush(*qp.open_receive);
  qp.open_receive.reset();
  for (uint32_t i = 0; i < posted; ++i) flush(qp.own_receives.Take());
  return true;
}

}  // namespace softhca
