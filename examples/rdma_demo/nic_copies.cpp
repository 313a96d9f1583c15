#include "nic_copies.hpp"

#include <algorithm>
#include <cstring>

#include "operation.hpp"
#include "warpverbs/host/exchange.hpp"

namespace rdma_demo {

namespace device = warpverbs::device;
namespace host = warpverbs::host;

NicCopies::NicCopies(const host::Device& nic, const host::EndpointConfig& config,
                     const host::MemoryView& memory, std::chrono::milliseconds timeout)
    : memory_(memory),
      timeout_(timeout),
      pages_(kPieceBytes),
      region_(nic, pages_.data(), pages_.size(), {.remote_read = true, .remote_write = true}),
      poster_(nic, config),
      owner_(nic, config) {
  poster_.Connect(owner_.Info());
  owner_.Connect(poster_.Info());
}

void NicCopies::CopyIn(uint64_t offset, std::span<const std::byte> from) {
  const host::MemoryView pages = region_.View();
  for (size_t at = 0; at < from.size(); at += kPieceBytes) {
    const std::span<const std::byte> piece = from.subspan(at, std::min(kPieceBytes, from.size() - at));
    std::memcpy(pages_.data(), piece.data(), piece.size());
    const host::MemoryView to = memory_.Subrange(offset + at, piece.size());
    Perform(poster_, "copy " + std::to_string(piece.size()) + " bytes to the device",
            device::Read(pages.Remote(), to.Local()), host::DeadlineIn(timeout_));
  }
}

void NicCopies::CopyOut(uint64_t offset, std::span<std::byte> to) {
  const host::MemoryView pages = region_.View();
  for (size_t at = 0; at < to.size(); at += kPieceBytes) {
    const std::span<std::byte> piece = to.subspan(at, std::min(kPieceBytes, to.size() - at));
    const host::MemoryView from = memory_.Subrange(offset + at, piece.size());
    Perform(poster_, "copy " + std::to_string(piece.size()) + " bytes from the device",
            device::Write(pages.Remote(), from.Local()), host::DeadlineIn(timeout_));
    std::memcpy(piece.data(), pages_.data(), piece.size());
  }
}

}  // namespace rdma_demo
