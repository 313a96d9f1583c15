#include "faults/faulty_direction.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "wire/frame.hpp"
#include "wire/packet.hpp"

namespace softhca {
namespace {

/// Frames that a slow receiver's buffer holds; more are lost, as on a card that is too slow.
constexpr size_t kBacklog = 1024;

constexpr size_t kChangeableByte = 4;  // in the base header: routers may change it, so the ICRC excludes it

uint32_t Read24(std::span<const uint8_t> bytes, size_t at) {
  return uint32_t{bytes[at]} << 16 | uint32_t{bytes[at + 1]} << 8 | bytes[at + 2];
}

/// Returns the transport packet of an RDMA frame; nothing for other frames.
std::optional<std::span<const uint8_t>> TransportOf(std::span<const uint8_t> frame, mlx5::PortType link) {
  const auto parsed = ParseFrame(frame, link);
  return parsed ? std::optional(parsed->transport) : std::nullopt;
}

/// Flips a bit that the ICRC covers.
void Corrupt(std::vector<uint8_t>& frame, uint64_t random, mlx5::PortType link) {
  const auto transport = *TransportOf(frame, link);
  size_t byte = (random >> 3) % (transport.size() - 1);
  if (byte >= kChangeableByte) ++byte;
  frame[static_cast<size_t>(transport.data() - frame.data()) + byte] ^=
      static_cast<uint8_t>(1 << (random & 7));
}

/// Flips a bit of the payload and corrects the CRCs, like a fault behind the NIC's checks. A frame without
/// payload stays unchanged.
void Flip(std::vector<uint8_t>& frame, uint64_t random, mlx5::PortType link) {
  const auto transport = *TransportOf(frame, link);
  const auto packet = Decode(transport.first(transport.size() - kIcrcBytes));
  if (!packet || packet->payload.empty()) return;
  const auto payload = static_cast<size_t>(packet->payload.data() - frame.data());
  frame[payload + (random >> 3) % packet->payload.size()] ^= static_cast<uint8_t>(1 << (random & 7));
  SealFrame(frame, link);
}

}  // namespace

void FaultyDirection::Take(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out) {
  const auto transport = TransportOf(frame, link_);
  if (!transport) return out(frame);
  const FrameFate fate =
      dice_->Roll({direction_, (*transport)[0], Read24(*transport, 5), Read24(*transport, 9)});
  if (fate.drop) return losses_("by --fault drop", 1);
  Bytes changed;
  if (fate.flip || fate.corrupt) {
    changed.assign(frame.begin(), frame.end());
    if (fate.flip) Flip(changed, *fate.flip, link_);
    if (fate.corrupt) Corrupt(changed, *fate.corrupt, link_);
    frame = changed;
  }
  for (int copies = fate.duplicate ? 2 : 1; copies != 0; --copies) {
    if (fate.delay_ns != 0) {
      later_.emplace(now_ns + fate.delay_ns, Bytes(frame.begin(), frame.end()));
    } else if (fate.reorder_ns) {
      overtaken_.emplace(now_ns + *fate.reorder_ns, Bytes(frame.begin(), frame.end()));
    } else {
      Pass(frame, now_ns, out);
    }
  }
  if (fate.delay_ns != 0 || fate.reorder_ns) return;
  for (const auto& [until_ns, held] : std::exchange(overtaken_, {})) Pass(held, now_ns, out);
}

void FaultyDirection::Pass(std::span<const uint8_t> frame, uint64_t now_ns, const FrameSink& out) {
  if (slow_ns_ == 0) return out(frame);
  if (later_.size() >= kBacklog) return losses_("by --fault slow", 1);
  free_ns_ = std::max(free_ns_, now_ns);
  later_.emplace(free_ns_, Bytes(frame.begin(), frame.end()));
  free_ns_ += slow_ns_;
}

size_t FaultyDirection::Release(uint64_t now_ns, const FrameSink& out) {
  while (!overtaken_.empty() && overtaken_.begin()->first <= now_ns) {
    later_.insert(overtaken_.extract(overtaken_.begin()));
  }
  size_t count = 0;
  for (; !later_.empty() && later_.begin()->first <= now_ns; ++count) {
    const auto due = later_.extract(later_.begin());
    out(due.mapped());
  }
  return count;
}

uint64_t FaultyDirection::NextNs() const {
  const uint64_t later = later_.empty() ? UINT64_MAX : later_.begin()->first;
  const uint64_t overtaken = overtaken_.empty() ? UINT64_MAX : overtaken_.begin()->first;
  return std::min(later, overtaken);
}

}  // namespace softhca
