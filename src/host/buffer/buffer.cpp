#include "warpverbs/host/buffer.hpp"

#include <cerrno>
#include <string>

#include "memory/bounds.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {

void Buffer::CopyIn(size_t offset, std::span<const std::byte> from) const {
  Check(offset, from.size());
  if (!from.empty()) DoCopyIn(offset, from);
}

void Buffer::CopyOut(size_t offset, std::span<std::byte> to) const {
  Check(offset, to.size());
  if (!to.empty()) DoCopyOut(offset, to);
}

DmaBuf Buffer::Export() const {
  throw Error("export", std::to_string(size()) + " bytes of " + name(), "no driver exports such memory",
              "Register it by its address");
}

MemoryRegion Buffer::Register(const Device& device, const Access& access) const {
  return {device, data(), size(), access};
}

void Buffer::Flush(FlushDirection direction, void* stream) const {
  if (direction != FlushDirection::kGpuToNic && direction != FlushDirection::kNicToGpu) {
    throw Error(
        "flush", name(),
        "there is no direction " + std::to_string(static_cast<int>(direction)) + ": " + Error::Words(EINVAL),
        "Pass 0 for GPU to NIC, or 1 for NIC to GPU", EINVAL);
  }
  DoFlush(direction, stream);
}

void Buffer::DoFlush(FlushDirection, void*) const {
  throw Error("flush", name(), "no driver that this library knows flushes such memory",
              "Let the framework whose memory it is wait for its work", EOPNOTSUPP);
}

void Buffer::Check(size_t offset, size_t bytes) const {
  if (!LiesWithin(offset, bytes, size_)) ThrowOutside(name(), offset, bytes, size_);
}

}  // namespace warpverbs::host
