#include "warpverbs/host/buffer.hpp"

#include <stdexcept>

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

void Buffer::Check(size_t offset, size_t bytes) const {
  if (offset > size_ || bytes > size_ - offset) {
    throw std::out_of_range(name() + ": " + std::to_string(bytes) + " bytes at offset " +
                            std::to_string(offset) + " do not lie within " + std::to_string(size_) +
                            " bytes");
  }
}

}  // namespace warpverbs::host
