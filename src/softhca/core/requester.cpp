#include "core/requester.hpp"

#include <algorithm>
#include <atomic>

#include "core/hca.hpp"
#include "core/packets.hpp"

namespace softhca {
namespace {

using mlx5::QpState;
using mlx5::Syndrome;

constexpr int kBurst = 64;
constexpr uint64_t kBurstBytes = 1 << 20;
constexpr uint8_t kRetryForever = 7;

/// The time to wait for a receiver that was not ready, by its 5-bit code (IBTA 1.4, table 46), in units of 10
/// us.
uint64_t RnrTimerNs(uint8_t code) {
  constexpr uint32_t kTenMicroseconds[32] = {
      65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
      256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return uint64_t{kTenMicroseconds[code & 31]} * 10'000;
}

uint64_t AckTimeoutNs(uint8_t code) { return uint64_t{4096} << code; }

uint32_t PostedWqebbs(const QueuePair& qp) {
  if (qp.config.send_depth == 0) return 0;
  const mlx5::Be32 record{std::atomic_ref(qp.config.send_dbr->raw).load(std::memory_order_acquire)};
  return (mlx5::FromBe(record) - qp.send_index) & mlx5::kQpDbrIndexMask;
}

}  // namespace

bool Requester::Run(QueuePair& qp, uint64_t now_ns) {
  if (qp.held || qp.retry.at_ns > now_ns) return false;
  bool progress = false;
  uint64_t moved = 0;
  for (int i = 0; i < kBurst && moved < kBurstBytes; ++i) {
    const uint32_t available = PostedWqebbs(qp);
    if (available == 0) {
      qp.rung = false;
      break;
    }
    if (!Step(qp, available, now_ns)) break;
    progress = true;
    moved += wqe_.request().bytes;
  }
  return progress;
}

/// @return  false if the entry must wait
bool Requester::Step(QueuePair& qp, uint32_t available, uint64_t now_ns) {
  const Syndrome fault = wqe_.Read(qp, qp.send_index, available);
  if (qp.state != QpState::kRts) {
    Finish(qp, qp.state == QpState::kError ? Syndrome::kFlushed : Syndrome::kLocalQpOperation);
    return true;
  }
  if (const auto forced = qp.forced_failures.find(wqe_.index()); forced != qp.forced_failures.end()) {
    const QueuePair::ForcedFailure failure = forced->second;
    qp.forced_failures.erase(forced);
    Finish(qp, failure.syndrome, failure.vendor_syndrome);
    return true;
  }
  if (wqe_.waits()) return false;
  if (fault != Syndrome::kNone || wqe_.local()) {
    Finish(qp, fault);
    return true;
  }
  if (qp.retry.timeouts > qp.attributes.retry_count) {
    Finish(qp, Syndrome::kTransportRetryExceeded);
    return true;
  }
  return OnResponse(qp, link_.Deliver(qp, wqe_.request()), now_ns);
}

bool Requester::OnResponse(QueuePair& qp, const Response& response, uint64_t now_ns) {
  const QpAttributes& attributes = qp.attributes;
  switch (response.kind) {
    case Response::Kind::kAcknowledged:
      qp.next_send_psn = (qp.next_send_psn + PsnCount(wqe_.request(), attributes.mtu)) & kPsnMask;
      Finish(qp, Syndrome::kNone);
      return true;
    case Response::Kind::kRejected:
      Finish(qp, response.syndrome);
      return true;
    case Response::Kind::kReceiverNotReady:
      if (attributes.rnr_retry != kRetryForever && qp.retry.not_ready++ == attributes.rnr_retry) {
        Finish(qp, Syndrome::kReceiverNotReadyRetryExceeded);
        return true;
      }
      qp.retry.at_ns = now_ns + RnrTimerNs(response.rnr_timer);
      return false;
    case Response::Kind::kSilence:
      if (attributes.ack_timeout != 0) ++qp.retry.timeouts;  // code 0 waits for ever
      qp.retry.at_ns = now_ns + AckTimeoutNs(attributes.ack_timeout != 0 ? attributes.ack_timeout : 8);
      return false;
  }
  return false;
}

void Requester::Finish(QueuePair& qp, Syndrome syndrome, std::optional<uint8_t> vendor_syndrome) {
  const bool ok = syndrome == Syndrome::kNone;
  qp.send_index = (qp.send_index + wqe_.wqebbs()) & mlx5::kQpDbrIndexMask;
  qp.retry = {};
  bool delivered = true;
  if (!ok || wqe_.signalled()) {
    const bool fetched =
        wqe_.request().opcode == mlx5::WqeOpcode::kRdmaRead || wqe_.request().atomic.bytes != 0;
    delivered =
        qp.send_cq->Push({.opcode = ok ? mlx5::CqeOpcode::kRequester : mlx5::CqeOpcode::kRequesterError,
                          .qpn = qp.qpn,
                          .user_index = qp.config.user_index,
                          .wqe_opcode = static_cast<uint8_t>(wqe_.opcode()),
                          .wqe_index = wqe_.index(),
                          .bytes = fetched ? static_cast<uint32_t>(wqe_.request().bytes) : 0,
                          .syndrome = syndrome,
                          .vendor_syndrome = vendor_syndrome});
  }
  if (!ok || !delivered) EnterError(qp);
}

bool Requester::FlushReceives(QueuePair& qp) {
  const uint32_t posted = std::min(qp.own_receives.Available(), qp.own_receives.config().depth);
  if (posted == 0) return false;
  for (uint32_t i = 0; i < posted; ++i) {
    const ReceiveWqe wqe = qp.own_receives.Take();
    qp.receive_cq->Push({.opcode = mlx5::CqeOpcode::kResponderError,
                         .qpn = qp.qpn,
                         .user_index = qp.config.user_index,
                         .wqe_index = wqe.index,
                         .syndrome = Syndrome::kFlushed});
  }
  return true;
}

}  // namespace softhca
