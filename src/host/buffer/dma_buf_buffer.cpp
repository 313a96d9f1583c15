#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "memory/page_range.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr char kCannotReach[] = "Copy with the driver of the device that owns the memory, or by RDMA";

/// Maps the pages of a dma-buf around a range for the time of a copy. A dma-buf never shrinks.
class Mapping {
 public:
  Mapping(const DmaBuf& file, uint64_t offset, size_t bytes, int protection)
      : pages_(PageRange::Around(offset, bytes, kPage)),
        start_(
            mmap(nullptr, pages_.bytes, protection, MAP_SHARED, file.fd(), static_cast<off_t>(pages_.start))),
        place_(static_cast<std::byte*>(start_) + (offset - pages_.start)) {
    if (start_ != MAP_FAILED) return;
    throw Error::FromErrno("reach", std::to_string(bytes) + " bytes of a dma-buf", errno, kCannotReach);
  }
  ~Mapping() { munmap(start_, pages_.bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return place_; }

 private:
  static constexpr uint64_t kPage = 65536;  // multiple of every processor's page size

  PageRange pages_;
  void* start_;
  std::byte* place_;
};

/// Returns whether the file is ordinary memory, such as memfd_create() makes. Another process may truncate
/// such a file at any time, and touching a mapping past its end raises SIGBUS, so it is never mapped.
bool IsPlainFile(const DmaBuf& file) {
  struct stat status {};
  return fstat(file.fd(), &status) == 0 && S_ISREG(status.st_mode);
}

/// Copies a whole range with `call`, which is pread() or pwrite() for a piece of it.
template <class Call>
void CopyPieces(const char* step, uint64_t offset, size_t bytes, const Call& call) {
  const std::string object = std::to_string(bytes) + " bytes of a dma-buf";
  for (size_t done = 0; done < bytes;) {
    const ssize_t piece = call(done, bytes - done, static_cast<off_t>(offset + done));
    if (piece < 0 && errno == EINTR) continue;
    if (piece < 0) throw Error::FromErrno(step, object, errno, kCannotReach);
    if (piece == 0) {
      throw Error(step, object, "the file was truncated",
                  "Find the code that truncates it, or seal the file with F_SEAL_SHRINK before sharing it");
    }
    done += static_cast<size_t>(piece);
  }
}

void WriteFile(const DmaBuf& file, uint64_t offset, std::span<const std::byte> from) {
  CopyPieces("write", offset, from.size(), [&](size_t done, size_t bytes, off_t at) -> ssize_t {
    struct stat status {};
    if (fstat(file.fd(), &status) != 0) return -1;
    if (status.st_size < at + static_cast<off_t>(bytes)) return 0;  // pwrite() would extend it
    return pwrite(file.fd(), from.data() + done, bytes, at);
  });
}

void ReadFile(const DmaBuf& file, uint64_t offset, std::span<std::byte> to) {
  CopyPieces("read", offset, to.size(), [&](size_t done, size_t bytes, off_t at) {
    return pread(file.fd(), to.data() + done, bytes, at);
  });
}

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
    const uint64_t place = file_.OffsetOf(data() + offset);
    if (IsPlainFile(file_)) return WriteFile(file_, place, from);
    const Mapping mapping(file_, place, from.size(), PROT_READ | PROT_WRITE);
    std::memcpy(mapping.data(), from.data(), from.size());
  }
  void DoCopyOut(size_t offset, std::span<std::byte> to) const override {
    const uint64_t place = file_.OffsetOf(data() + offset);
    if (IsPlainFile(file_)) return ReadFile(file_, place, to);
    const Mapping mapping(file_, place, to.size(), PROT_READ);
    std::memcpy(to.data(), mapping.data(), to.size());
  }

 private:
  DmaBuf file_;
};

}  // namespace

std::unique_ptr<Buffer> WrapDmaBuf(DmaBuf file, void* memory, size_t bytes) {
  if (bytes == 0 || !file.Covers(memory, bytes)) {
    throw Error("use", std::to_string(bytes) + " bytes of a dma-buf of " + std::to_string(file.size()),
                "the range is outside of it", "Pass a range inside the export");
  }
  return std::make_unique<DmaBufBuffer>(std::move(file), static_cast<std::byte*>(memory), bytes);
}

}  // namespace warpverbs::inline v0_2::host
