#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "../memory/page_range.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory_kinds.hpp"

namespace warpverbs::host {
namespace {

/// The pages of a file that a range lies in, for as long as a copy takes.
class Mapping {
 public:
  Mapping(const DmaBuf& file, uint64_t offset, size_t bytes, int protection)
      : pages_(PageRange::Around(offset, bytes, kPage)),
        start_(
            mmap(nullptr, pages_.bytes, protection, MAP_SHARED, file.fd(), static_cast<off_t>(pages_.start))),
        place_(static_cast<std::byte*>(start_) + (offset - pages_.start)) {
    if (start_ != MAP_FAILED) return;
    throw Error::FromErrno("reach", std::to_string(bytes) + " bytes of a dma-buf", errno,
                           "Copy with the driver of the device whose memory it is, or by RDMA");
  }
  ~Mapping() { munmap(start_, pages_.bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return place_; }

 private:
  static constexpr uint64_t kPage = 65536;  // a multiple of every processor's

  PageRange pages_;
  void* start_;
  std::byte* place_;
};

class DmaBufBuffer final : public Buffer {
 public:
  DmaBufBuffer(DmaBuf file, std::byte* data, size_t size) : Buffer(data, size), file_(std::move(file)) {}

  std::string name() const override { return "a dma-buf"; }
  DmaBuf Export() const override { return {file_.file().Duplicate(), file_.start(), file_.size()}; }
  MemoryRegion Register(const Device& device, const Access& access) const override {
    return {device, file_, data(), size(), access};
  }

 protected:
  void DoCopyIn(size_t offset, std::span<const std::byte> from) const override {
    const Mapping mapping(file_, file_.OffsetOf(data() + offset), from.size(), PROT_READ | PROT_WRITE);
    std::memcpy(mapping.data(), from.data(), from.size());
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    const Mapping mapping(file_, file_.OffsetOf(data() + offset), to.size(), PROT_READ);
    std::memcpy(to.data(), mapping.data(), to.size());
  }

 private:
  DmaBuf file_;
};

}  // namespace

std::unique_ptr<Buffer> WrapDmaBuf(DmaBuf file, void* memory, size_t bytes) {
  if (bytes == 0 || !file.Covers(memory, bytes)) {
    throw Error("use", std::to_string(bytes) + " bytes of a dma-buf of " + std::to_string(file.size()),
                "they do not lie within", "Pass a part of what was exported");
  }
  return std::make_unique<DmaBufBuffer>(std::move(file), static_cast<std::byte*>(memory), bytes);
}

}  // namespace warpverbs::host
