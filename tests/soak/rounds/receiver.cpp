#include "soak/rounds/receiver.hpp"

#include <cstring>

#include "soak/bytes.hpp"
#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/mlx5/endian.hpp"

namespace soak {

using namespace warpverbs;
using arch::Cpu;
using device::Code;

Receiver::Receiver(const Context& context, const PairPlan& plan, const Causes& causes, uint32_t pair,
                   const device::ReceiveQueueView& view, std::span<uint8_t> memory,
                   const device::LocalMemory& local)
    : context_(context),
      plan_(plan),
      causes_(causes),
      pair_(pair),
      depth_(view.depth),
      memory_(memory),
      local_(local),
      queue_(view),
      two_parts_(view.stride > mlx5::kSegmentBytes) {
  for (uint32_t i = 0; i < depth_; ++i) PostReceive(i);
  queue_.Submit();
}

void Receiver::PostReceive(uint32_t number) {
  const uint64_t start = local_.addr + uint64_t{number % depth_} * plan_.receive_bytes;
  const uint64_t second = two_parts_ ? plan_.receive_bytes / 3 : 0, first = plan_.receive_bytes - second;
  const device::Status status =
      queue_.Post({start, first, local_.lkey}, {start + first, second, local_.lkey});
  if (!status.ok())
    Fail(context_, "a receive cannot be posted: code " + std::to_string(static_cast<int>(status.code)));
}

bool Receiver::HasAll() const {
  for (uint32_t poster = 0; poster < kMaxPosters; ++poster) {
    if (taken_[poster] < causes_.other().arrived[poster]) return false;
  }
  return true;
}

void Receiver::Run() {
  for (;;) {
    const bool finishing = finishing_;
    const device::Received received = queue_.Poll({.deadline_ns = Cpu::NowNs() + 2'000'000});
    switch (received.status.code) {
      case Code::kOk:
        Check(received);
        PostReceive(received.index);
        queue_.Submit();
        break;
      case Code::kTimeout:
        if (finishing && HasAll()) return;
        break;
      case Code::kError:
        if (const std::string wrong = causes_.Judge(received.status.syndrome, true); !wrong.empty())
          Fail(context_, "pair " + std::to_string(pair_) + ": a receive failed: " + wrong);
        return;
      default:
        Fail(context_, "a receive returns code " + std::to_string(static_cast<int>(received.status.code)));
    }
  }
}

void Receiver::Check(const device::Received& received) {
  const auto* const bytes = &memory_[size_t{received.index % depth_} * plan_.receive_bytes];
  const uint32_t from = 1 - context_.side;
  MessageHeader header{};
  if (received.has_imm) {
    const uint32_t imm = mlx5::ToBe32(received.imm.raw).raw;  // swaps back
    header = {imm >> 24, imm & 0xffffff, received.bytes};
  } else {
    std::memcpy(&header, bytes, sizeof header);
  }
  const std::string text = "pair " + std::to_string(pair_) + ": message " + std::to_string(header.number) +
                           " of poster " + std::to_string(header.poster);
  if (header.poster >= kMaxPosters || header.bytes != received.bytes)
    Fail(context_, text + " with " + std::to_string(received.bytes) + " bytes is none of the peer's");
  if (header.number != taken_[header.poster])
    Fail(context_, text + " came in place of " + std::to_string(taken_[header.poster]));
  ++taken_[header.poster];
  context_.counts().Add(Tally::kMessagesReceived);
  context_.counts().Add(Tally::kBytesCompared, received.bytes);
  if (received.is_write) return;  // its poster checks the bytes
  const uint64_t key = MessageKey(context_.plan, from, pair_, header.poster, header.number);
  const size_t checked = received.has_imm ? 0 : sizeof header;
  if (!Matches({bytes + checked, received.bytes - checked}, key, checked))
    Fail(context_, text + " has wrong bytes");
}

void Receiver::CheckCounts() const {
  for (uint32_t poster = 0; poster < kMaxPosters; ++poster) {
    const uint32_t posted = causes_.other().posted[poster], arrived = causes_.other().arrived[poster];
    if (taken_[poster] >= arrived && taken_[poster] <= posted) continue;
    Fail(context_, "pair " + std::to_string(pair_) + ": " + std::to_string(taken_[poster]) +
                       " messages of poster " + std::to_string(poster) + " came; it posted " +
                       std::to_string(posted) + " and knows of " + std::to_string(arrived));
  }
}

}  // namespace soak
