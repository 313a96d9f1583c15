#include "wire/response_queue.hpp"

#include <algorithm>

#include "core/packets.hpp"

namespace softhca {
using mlx5::Syndrome;

bool ResponseQueue::HasRoom() const { return Count(false) < qp_.attributes.max_reads_in; }

size_t ResponseQueue::Count(bool duplicate) const {
  return static_cast<size_t>(std::count_if(responses_.begin(), responses_.end(),
                                           [&](const Entry& entry) { return entry.duplicate == duplicate; }));
}

void ResponseQueue::AddRead(uint32_t psn, uint32_t msn, const RemoteRange& range) {
  responses_.push_back(
      {.psn = psn, .packets = PacketCount(range.bytes, qp_.attributes.mtu), .msn = msn, .rest = range});
}

void ResponseQueue::AddAtomic(uint32_t psn, uint32_t msn, uint64_t original) {
  responses_.push_back({.psn = psn, .packets = 1, .msn = msn, .atomic = true, .original = original});
  if (results_.size() < qp_.attributes.max_reads_in) {
    results_.push_back({psn, original});
  } else {
    results_[oldest_result_] = {psn, original};
    oldest_result_ = (oldest_result_ + 1) % results_.size();
  }
}

void ResponseQueue::RepeatRead(uint32_t psn, uint32_t msn, const RemoteRange& range) {
  Repeat({.psn = psn,
          .packets = PacketCount(range.bytes, qp_.attributes.mtu),
          .msn = msn,
          .duplicate = true,
          .rest = range});
}

void ResponseQueue::RepeatAtomic(uint32_t psn, uint32_t msn) {
  const auto result = std::find_if(results_.begin(), results_.end(),
                                   [&](const Result& candidate) { return candidate.psn == psn; });
  if (result == results_.end()) return;
  Repeat({.psn = psn,
          .packets = 1,
          .msn = msn,
          .duplicate = true,
          .atomic = true,
          .original = result->original});
}

/// Queues a response to a duplicate request. A peer that repeats a request has every packet before it and
/// accepts none after it, so the new response replaces what is still queued for the same request.
void ResponseQueue::Repeat(const Entry& entry) {
  if (Count(true) >= qp_.attributes.max_reads_in) return;  // more duplicates than requests in flight
  std::erase_if(responses_, [&](const Entry& other) {
    return PsnDelta(other.psn, AddPsn(entry.psn, entry.packets)) < 0 &&
           PsnDelta(entry.psn, AddPsn(other.psn, other.packets)) < 0;
  });
  const auto next = std::find_if(responses_.begin(), responses_.end(),
                                 [&](const Entry& other) { return PsnDelta(other.psn, entry.psn) > 0; });
  responses_.insert(next, entry);
}

std::optional<ResponseQueue::Refusal> ResponseQueue::Send() {
  constexpr int kBurst = 64;  // packets before other queue pairs run; fits a socket buffer easily
  for (int sent = 0; sent < kBurst && !responses_.empty(); ++sent) {
    Entry& entry = responses_.front();
    if (entry.atomic) {
      SendAtomic(entry);
      entry.packets = 0;
    } else if (const Syndrome refusal = SendReadPacket(entry); refusal != Syndrome::kNone) {
      const Refusal ended{entry.psn, refusal};
      if (!entry.duplicate) {
        responses_.clear();
        return ended;
      }
      entry.packets = 0;  // a refused duplicate gets no response
    }
    if (entry.packets == 0) responses_.erase(responses_.begin());
  }
  return std::nullopt;
}

void ResponseQueue::SendAtomic(const Entry& entry) {
  Packet packet{.op = PacketOp::kAtomicAcknowledge, .dest_qpn = qp_.attributes.remote_qpn, .psn = entry.psn};
  packet.ack = {aeth::kAck | aeth::kNoCredits, entry.msn};
  packet.original = entry.original;
  sink_.Send(qp_, packet, {});
}

/// Sends the next packet of a read response. A repeated part of a read is a request of its own, so its
/// response starts with a first packet, too.
Syndrome ResponseQueue::SendReadPacket(Entry& entry) {
  const uint64_t bytes = std::min<uint64_t>(entry.rest.bytes, MtuBytes(qp_.attributes.mtu));
  const RemoteRange part{entry.rest.address, entry.rest.rkey, bytes, entry.rest.pdn};
  const RemoteMemory memory = FindRemoteMemory(qp_, part, kAccessRemoteRead);
  if (memory.refusal != Syndrome::kNone) return memory.refusal;
  const bool last = entry.packets == 1;
  Packet packet{.dest_qpn = qp_.attributes.remote_qpn, .psn = entry.psn};
  packet.ack = {aeth::kAck | aeth::kNoCredits, entry.msn};
  if (entry.started) {
    packet.op = last ? PacketOp::kReadResponseLast : PacketOp::kReadResponseMiddle;
  } else {
    packet.op = last ? PacketOp::kReadResponseOnly : PacketOp::kReadResponseFirst;
  }
  const Gather payload{.pieces = memory.span(), .bytes = static_cast<uint32_t>(bytes)};
  if (!sink_.Send(qp_, packet, payload)) return Syndrome::kRemoteAccess;
  entry.started = true;
  entry.psn = AddPsn(entry.psn, 1);
  --entry.packets;
  entry.rest.address += bytes;
  entry.rest.bytes -= bytes;
  return Syndrome::kNone;
}

}  // namespace softhca
