#include <algorithm>

#include "core/packets.hpp"
#include "wire/answer_queue.hpp"

namespace softhca {
using mlx5::Syndrome;

bool AnswerQueue::HasRoom() const { return Count(false) < qp_.attributes.max_reads_in; }

size_t AnswerQueue::Count(bool again) const {
  return static_cast<size_t>(std::count_if(answers_.begin(), answers_.end(),
                                           [&](const Answer& answer) { return answer.again == again; }));
}

void AnswerQueue::AddRead(uint32_t psn, uint32_t msn, const RemoteRange& range) {
  answers_.push_back(
      {.psn = psn, .packets = PacketCount(range.bytes, qp_.attributes.mtu), .msn = msn, .rest = range});
}

void AnswerQueue::AddAtomic(uint32_t psn, uint32_t msn, uint64_t original) {
  answers_.push_back({.psn = psn, .packets = 1, .msn = msn, .atomic = true, .original = original});
  if (results_.size() < qp_.attributes.max_reads_in) {
    results_.push_back({psn, original});
  } else {
    results_[oldest_result_] = {psn, original};
    oldest_result_ = (oldest_result_ + 1) % results_.size();
  }
}

void AnswerQueue::RepeatRead(uint32_t psn, uint32_t msn, const RemoteRange& range) {
  Repeat({.psn = psn,
          .packets = PacketCount(range.bytes, qp_.attributes.mtu),
          .msn = msn,
          .again = true,
          .rest = range});
}

void AnswerQueue::RepeatAtomic(uint32_t psn, uint32_t msn) {
  const auto result = std::find_if(results_.begin(), results_.end(),
                                   [&](const Result& candidate) { return candidate.psn == psn; });
  if (result == results_.end()) return;
  Repeat({.psn = psn, .packets = 1, .msn = msn, .again = true, .atomic = true, .original = result->original});
}

/// Queues a response to a duplicate request. A peer that repeats a request has every packet before it and
/// accepts none after it, so the new response replaces what is still queued for the same request.
void AnswerQueue::Repeat(const Answer& answer) {
  if (Count(true) >= qp_.attributes.max_reads_in) return;  // more duplicates than requests in flight
  std::erase_if(answers_, [&](const Answer& other) {
    return PsnDelta(other.psn, AddPsn(answer.psn, answer.packets)) < 0 &&
           PsnDelta(answer.psn, AddPsn(other.psn, other.packets)) < 0;
  });
  const auto next = std::find_if(answers_.begin(), answers_.end(),
                                 [&](const Answer& other) { return PsnDelta(other.psn, answer.psn) > 0; });
  answers_.insert(next, answer);
}

std::optional<AnswerQueue::Refusal> AnswerQueue::Send() {
  constexpr int kBurst = 64;  // packets before other queue pairs run; fits a socket buffer easily
  for (int sent = 0; sent < kBurst && !answers_.empty(); ++sent) {
    Answer& answer = answers_.front();
    if (answer.atomic) {
      SendAtomic(answer);
      answer.packets = 0;
    } else if (const Syndrome refusal = SendReadPacket(answer); refusal != Syndrome::kNone) {
      const Refusal ended{answer.psn, refusal};
      if (!answer.again) {
        answers_.clear();
        return ended;
      }
      answer.packets = 0;  // a refused duplicate gets no response
    }
    if (answer.packets == 0) answers_.erase(answers_.begin());
  }
  return std::nullopt;
}

void AnswerQueue::SendAtomic(const Answer& answer) {
  Packet packet{.op = PacketOp::kAtomicAcknowledge, .dest_qpn = qp_.attributes.remote_qpn, .psn = answer.psn};
  packet.ack = {aeth::kAck | aeth::kNoCredits, answer.msn};
  packet.original = answer.original;
  sink_.Send(qp_, packet, {});
}

/// Sends the next packet of a read response. A repeated part of a read is a request of its own, so its
/// response starts with a first packet, too.
Syndrome AnswerQueue::SendReadPacket(Answer& answer) {
  const uint64_t bytes = std::min<uint64_t>(answer.rest.bytes, MtuBytes(qp_.attributes.mtu));
  const RemoteMemory memory =
      FindRemoteMemory(qp_, {answer.rest.address, answer.rest.rkey, bytes}, kAccessRemoteRead);
  if (memory.refusal != Syndrome::kNone) return memory.refusal;
  const bool last = answer.packets == 1;
  Packet packet{.dest_qpn = qp_.attributes.remote_qpn, .psn = answer.psn};
  packet.ack = {aeth::kAck | aeth::kNoCredits, answer.msn};
  if (answer.begun) {
    packet.op = last ? PacketOp::kReadResponseLast : PacketOp::kReadResponseMiddle;
  } else {
    packet.op = last ? PacketOp::kReadResponseOnly : PacketOp::kReadResponseFirst;
  }
  const Gather payload{.pieces = std::span(&memory.bytes, 1), .bytes = static_cast<uint32_t>(bytes)};
  if (!sink_.Send(qp_, packet, payload)) return Syndrome::kRemoteAccess;
  answer.begun = true;
  answer.psn = AddPsn(answer.psn, 1);
  --answer.packets;
  answer.rest.address += bytes;
  answer.rest.bytes -= bytes;
  return Syndrome::kNone;
}

}  // namespace softhca
