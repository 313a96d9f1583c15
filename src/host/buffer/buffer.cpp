#include "warpverbs/host/buffer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "memory/bounds.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

bool Overlap(const std::byte* one, const std::byte* other, size_t bytes) {
  const auto a = reinterpret_cast<uintptr_t>(one), b = reinterpret_cast<uintptr_t>(other);
  return (a < b ? b - a : a - b) < bytes;
}

}  // namespace

void Buffer::CopyIn(size_t offset, std::span<const std::byte> from) const {
  Check(offset, from.size());
  if (!from.empty()) DoCopyIn(offset, from);
}

void Buffer::CopyOut(size_t offset, std::span<std::byte> to) const {
  Check(offset, to.size());
  if (!to.empty()) DoCopyOut(offset, to);
}

void Buffer::CopyTo(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const {
  Check(offset, bytes);
  to.Check(to_offset, bytes);
  if (bytes == 0) return;
  std::byte* const from_host = on_host();
  std::byte* const to_host = to.on_host();
  if (from_host != nullptr && to_host != nullptr) {
    std::memmove(to_host + to_offset, from_host + offset, bytes);
  } else if (from_host != nullptr) {
    to.DoCopyIn(to_offset, {from_host + offset, bytes});
  } else if (to_host != nullptr) {
    DoCopyOut(offset, {to_host + to_offset, bytes});
  } else if (Overlap(data() + offset, to.data() + to_offset, bytes) ||
             !DoCopyTo(offset, to, to_offset, bytes)) {
    CopyPieces(offset, to, to_offset, bytes);
  }
}

void Buffer::Fill(size_t offset, size_t bytes, std::byte value) const {
  Check(offset, bytes);
  if (bytes != 0) DoFill(offset, bytes, value);
}

void Buffer::DoFill(size_t offset, size_t bytes, std::byte value) const {
  const std::vector<std::byte> piece(std::min(bytes, kPieceBytes), value);
  for (size_t done = 0; done < bytes; done += piece.size())
    DoCopyIn(offset + done, std::span(piece).first(std::min(bytes - done, piece.size())));
}

bool Buffer::DoCopyTo(size_t, const Buffer&, size_t, size_t) const { return false; }

/// Copies through host memory. Copies from the end if copying from the beginning would overwrite bytes before
/// they are read.
void Buffer::CopyPieces(size_t offset, const Buffer& to, size_t to_offset, size_t bytes) const {
  const bool from_end = data() + offset < to.data() + to_offset;
  std::vector<std::byte> piece(std::min(bytes, kPieceBytes));
  for (size_t left = bytes; left > 0; left -= piece.size()) {
    piece.resize(std::min(left, piece.size()));
    const size_t at = from_end ? left - piece.size() : bytes - left;
    DoCopyOut(offset + at, piece);
    to.DoCopyIn(to_offset + at, piece);
  }
}

DmaBuf Buffer::Export() const {
  throw Error("export", std::to_string(size()) + " bytes of " + name(),
              "no driver exports this kind of memory", "Register it by its address");
}

MemoryRegion Buffer::Register(const Device& device, const Access& access) const {
  return {device, data(), size(), access};
}

void Buffer::Flush(FlushDirection direction, Deadline deadline, void* stream) const {
  if (direction != FlushDirection::kGpuToNic && direction != FlushDirection::kNicToGpu) {
    throw Error("flush", name(),
                "direction " + std::to_string(static_cast<int>(direction)) +
                    " is invalid: " + Error::DescribeErrno(EINVAL),
                "Pass 0 for GPU to NIC, or 1 for NIC to GPU", EINVAL);
  }
  DoFlush(direction, deadline, stream);
}

void Buffer::DoFlush(FlushDirection, Deadline, void*) const {
  throw Error("flush", name(), "no supported driver flushes this kind of memory",
              "Wait for the work in the framework that allocated it", EOPNOTSUPP);
}

void Buffer::Check(size_t offset, size_t bytes) const {
  if (!IsWithin(offset, bytes, size_)) ThrowOutOfRange(name(), offset, bytes, size_);
}

}  // namespace warpverbs::inline v0_2::host
