#include "observe/trace.hpp"

#include "core/send_queue.hpp"
#include "observe/names.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

bool IsBefore(uint16_t index, uint16_t end) { return static_cast<int16_t>(index - end) < 0; }

}  // namespace

Trace::Track& Trace::Of(const QueuePair& qp) {
  Track& track = tracks_[{qp.hca, qp.qpn}];
  if (track.number == 0) {
    track.number = static_cast<uint32_t>(tracks_.size());
    file_.NameTrack(track.number, ToString(qp) + " " + ToString(qp.config.service));
  }
  return track;
}

void Trace::OnState(const QueuePair& qp, mlx5::QpState) {
  Track& track = Of(qp);
  if (qp.state == mlx5::QpState::kReset) {
    track.doorbells.clear();
    track.open.clear();
  }
  file_.Instant(track.number, ToString(qp.state));
}

void Trace::OnLink(const Hca& hca, uint8_t port, bool up) {
  file_.Instant(0, hca.config().name + " port " + std::to_string(port) + (up ? " up" : " down"));
}

void Trace::OnDoorbell(const QueuePair& qp) {
  Track& track = Of(qp);
  const auto end = static_cast<uint16_t>(PostedWqebbs(qp, 0));
  const auto known =
      static_cast<uint16_t>(track.doorbells.empty() ? qp.send_index : track.doorbells.back().end);
  // Another queue pair's doorbell on the page.
  if (!IsBefore(known, end)) return;
  const uint64_t at_ns = file_.Slice(track.number, "doorbell", {{"end", end}});
  track.doorbells.push_back({at_ns, end});
}

uint64_t Trace::AnnouncedAt(Track& track, uint16_t index, uint64_t now_ns) {
  while (!track.doorbells.empty() && !IsBefore(index, track.doorbells.front().end))
    track.doorbells.pop_front();
  return track.doorbells.empty() ? now_ns : track.doorbells.front().at_ns;
}

void Trace::OnFetch(const QueuePair& qp, uint16_t index, const Request& request) {
  Track& track = Of(qp);
  const auto [place, fresh] = track.open.try_emplace(index);
  if (!fresh) return;  // it waits, or is retried
  Open& open = place->second;
  open = {++last_id_, ToString(request.opcode)};
  const TraceArgs args = {{"index", index}, {"bytes", request.bytes}};
  const uint64_t now_ns = file_.Slice(track.number, "fetch", args);
  const uint64_t announced_ns = AnnouncedAt(track, index, now_ns);
  file_.Flow(track.number, 's', open.id, announced_ns);
  file_.Flow(track.number, 't', open.id, now_ns);
  file_.Async(track.number, 'b', open.name, open.id, announced_ns, args);
}

void Trace::OnDone(const QueuePair& qp, uint16_t index, mlx5::Syndrome syndrome) {
  Track& track = Of(qp);
  const auto open = track.open.extract(index);
  const TraceArgs args = {{"index", index}, {"syndrome", static_cast<uint64_t>(syndrome)}};
  const uint64_t now_ns = file_.Slice(track.number, "completion", args);
  if (open.empty()) return;
  file_.Flow(track.number, 'f', open.mapped().id, now_ns);
  file_.Async(track.number, 'e', open.mapped().name, open.mapped().id, now_ns, args);
}

void Trace::OnMessage(const QueuePair&, const QueuePair& to, const Request& request) {
  file_.Instant(Of(to).number, std::string("received ") + ToString(request.opcode),
                {{"bytes", request.bytes}});
}

void Trace::OnPacket(const QueuePair& qp, Direction direction, const Packet& packet, uint64_t payload_bytes) {
  const std::string verb = direction == Direction::kSent ? "sent " : "received ";
  const char* const name = ToString(packet.service, packet.op);
  if (HasAckHeader(packet)) {
    file_.Instant(Of(qp).number, verb + name,
                  {{"psn", packet.psn}, {"bytes", payload_bytes}, {"syndrome", packet.ack.syndrome}});
  } else {
    file_.Instant(Of(qp).number, verb + name, {{"psn", packet.psn}, {"bytes", payload_bytes}});
  }
}

void Trace::OnTimeout(const QueuePair& qp) { file_.Instant(Of(qp).number, "timeout"); }

void Trace::OnDrop(const char* reason, uint64_t frames) {
  file_.Instant(0, std::string("dropped: ") + reason, {{"frames", frames}});
}

}  // namespace softhca
