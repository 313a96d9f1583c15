#include "common/nic_copies.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "warpverbs/arch/cpu.hpp"
#include "warpverbs/device/operations.hpp"
#include "warpverbs/device/send_queue.hpp"

namespace warpverbs::programs {

using arch::Cpu;

NicCopies::NicCopies(const host::Device& device, const host::EndpointConfig& config,
                     const host::MemoryView& memory, std::chrono::nanoseconds timeout, Raise raise)
    : memory_(memory),
      timeout_(timeout),
      raise_(std::move(raise)),
      pages_(kPieceBytes),
      region_(device, pages_.data(), pages_.size(), {.remote_read = true, .remote_write = true}),
      poster_(device, config),
      owner_(device, config) {
  poster_.Connect(owner_.Info());
  owner_.Connect(poster_.Info());
}

template <class Operation>
void NicCopies::Perform(const std::string& object, const Operation& operation) {
  const device::WaitLimit limit{.deadline_ns = Cpu::NowNs() + static_cast<uint64_t>(timeout_.count()),
                                .abort = poster_.AbortWord()};
  device::SendQueue<Cpu, device::Exclusive> queue(poster_.View());
  const device::Posted posted = queue.Post(operation, limit);
  const device::Status status = posted.status.ok() ? queue.Wait(posted.ticket, limit) : posted.status;
  if (!status.ok()) raise_(poster_, object, status);
}

void NicCopies::CopyIn(uint64_t offset, std::span<const std::byte> from) {
  const host::MemoryView pages = region_.View();
  for (size_t at = 0; at < from.size(); at += kPieceBytes) {
    const std::span<const std::byte> piece = from.subspan(at, std::min(kPieceBytes, from.size() - at));
    std::memcpy(pages_.data(), piece.data(), piece.size());
    const host::MemoryView to = memory_.Subrange(offset + at, piece.size());
    Perform(std::to_string(piece.size()) + " bytes to the device", device::Read(pages.Remote(), to.Local()));
  }
}

void NicCopies::CopyOut(uint64_t offset, std::span<std::byte> to) {
  const host::MemoryView pages = region_.View();
  for (size_t at = 0; at < to.size(); at += kPieceBytes) {
    const std::span<std::byte> piece = to.subspan(at, std::min(kPieceBytes, to.size() - at));
    const host::MemoryView from = memory_.Subrange(offset + at, piece.size());
    Perform(std::to_string(piece.size()) + " bytes from the device",
            device::Write(pages.Remote(), from.Local()));
    std::memcpy(piece.data(), pages_.data(), piece.size());
  }
}

}  // namespace warpverbs::programs
