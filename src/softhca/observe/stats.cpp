#include "observe/stats.hpp"

#include <algorithm>

#include "core/packets.hpp"
#include "core/send_queue.hpp"
#include "observe/names.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

/// Returns the number of PSNs that a request packet takes.
uint32_t PsnsOf(const QueuePair& qp, const Packet& packet) {
  return packet.op == PacketOp::kReadRequest ? PacketCount(packet.memory.bytes, qp.attributes.mtu) : 1;
}

bool EndsMessage(PacketOp op) { return !IsFirst(op) && !IsMiddle(op); }

}  // namespace

Stats::Entry& Stats::Of(const QueuePair& qp) {
  Entry& entry = entries_[{qp.hca, qp.qpn}];
  if (entry.counters.name.empty()) {
    entry.counters.name = ToString(qp);
    entry.counters.service = ToString(qp.config.service);
  }
  return entry;
}

void Stats::OnState(const QueuePair& qp, mlx5::QpState) {
  Entry& entry = Of(qp);
  if (qp.state == mlx5::QpState::kReset) {
    entry.open.clear();
    entry.reported_index = 0;
    entry.next_send_psn.reset();
  }
}

void Stats::OnFetch(const QueuePair& qp, uint16_t index, const Request& request) {
  Entry& entry = Of(qp);
  entry.open[index] = request.bytes;
  CountOpen(qp, entry);
}

void Stats::OnCompletion(const QueuePair& qp) {
  Entry& entry = Of(qp);
  CountOpen(qp, entry);
  ++entry.counters.completions;
  entry.reported_index = qp.send_index;
}

void Stats::CountOpen(const QueuePair& qp, Entry& entry) {
  entry.counters.most_open =
      std::max<uint64_t>(entry.counters.most_open, PostedWqebbs(qp, entry.reported_index));
}

void Stats::OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) {
  Entry& entry = Of(qp);
  const auto open = entry.open.extract(index);
  if (syndrome != mlx5::Syndrome::kNone) {
    ++entry.counters.failed;
    return;
  }
  ++entry.counters.requests;
  if (!open.empty()) entry.counters.request_bytes += open.mapped();
}

void Stats::OnMessage(const QueuePair&, const QueuePair& to, const Request& request) {
  QpCounters& counters = Of(to).counters;
  ++counters.messages;
  if (!request.fetches()) counters.message_bytes += request.bytes;
}

void Stats::OnPacket(const QueuePair& qp, Direction direction, const Packet& packet, uint64_t) {
  Entry& entry = Of(qp);
  QpCounters& counters = entry.counters;
  const bool sent = direction == Direction::kSent;
  ++(sent ? counters.packets_sent : counters.packets_received);
  ++(sent ? counters.sent_by_kind : counters.received_by_kind)[ToString(packet.service, packet.op)];
  if (HasAckHeader(packet)) {
    const uint8_t kind = packet.ack.syndrome & aeth::kKindMask;
    if (kind == aeth::kNak) ++(sent ? counters.naks_sent : counters.naks_received);
    if (kind == aeth::kRnrNak) ++(sent ? counters.rnr_naks_sent : counters.rnr_naks_received);
  }
  if (!IsRequest(packet)) return;
  if (sent) {
    CountSent(qp, entry, packet);
  } else {
    CountReceived(qp, entry, packet);
  }
}

void Stats::CountSent(const QueuePair& qp, Entry& entry, const Packet& packet) {
  uint32_t& next = entry.next_send_psn ? *entry.next_send_psn : entry.next_send_psn.emplace(packet.psn);
  if (PsnDelta(packet.psn, next) < 0) ++entry.counters.sent_again;
  const uint32_t end = (packet.psn + PsnsOf(qp, packet)) & kPsnMask;
  if (PsnDelta(end, next) > 0) next = end;
}

void Stats::CountReceived(const QueuePair& qp, Entry& entry, const Packet& packet) {
  if (qp.config.service != mlx5::ServiceType::kRc) return;
  const int32_t ahead = PsnDelta(packet.psn, qp.next_receive_psn);
  if (ahead < 0) ++entry.counters.duplicates;
  if (ahead > 0) ++entry.counters.out_of_order;
}

void Stats::OnExecuted(const QueuePair& qp, const Packet& packet) {
  QpCounters& counters = Of(qp).counters;
  counters.message_bytes += packet.payload.size();
  if (EndsMessage(packet.op)) ++counters.messages;
}

void Stats::OnTimeout(const QueuePair& qp) { ++Of(qp).counters.timeouts; }

void Stats::OnEnd(std::span<const std::unique_ptr<Hca>> devices) {
  StatsReport report{.devices = devices, .drops = drops_, .lost_events = lost_events_};
  for (const auto& [key, entry] : entries_) report.qps.push_back(entry.counters);
  if (json_file_.empty()) {
    Print(report);
  } else {
    WriteJson(report, json_file_);
  }
}

}  // namespace softhca
