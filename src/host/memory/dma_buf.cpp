#include "warpverbs/host/dma_buf.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "driver/cuda_context.hpp"
#include "gpu_access.hpp"
#include "page_range.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::host {
namespace {

uint64_t HostPage() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

DmaBuf::DmaBuf(const Gpu& gpu, const void* memory, size_t bytes) {
  const PageRange pages = PageRange::Around(ToCuda(memory), bytes, HostPage());
  start_ = pages.start;
  size_ = pages.bytes;
  const CudaContext& context = *gpu.context();
  const CudaContext::Current current(context);
  int fd = -1;
  const int result = context.driver().MemGetHandleForAddressRange(&fd, start_, size_, kCudaDmaBufFd, 0);
  file_ = FileDescriptor(fd);  // before anything throws
  context.driver().Check(result, "export", std::to_string(bytes) + " bytes of memory of " + gpu.name(),
                         kPeerMemoryRemedy);
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // the driver promises nothing
}

DmaBuf::DmaBuf(FileDescriptor file, uint64_t start, size_t bytes)
    : start_(start), size_(bytes), file_(std::move(file)) {
  const auto refuse = [this](const std::string& reason, const char* remedy) {
    throw Error("take", "a dma-buf of " + std::to_string(size_) + " bytes", reason, remedy);
  };
  if (!file_) refuse("there is no file", "Pass the descriptor that the exporter gave");
  if (size_ == 0) refuse("it is empty", "Pass the number of bytes that were exported");
  if (start_ % HostPage() != 0) {
    refuse("its address begins no page", "Pass the address of the file's first byte, not of a place in it");
  }
  const off_t length = lseek(fd(), 0, SEEK_END);  // not all kinds of file can tell
  if (length > 0 && static_cast<uint64_t>(length) < size_) {
    refuse("the file has " + std::to_string(length), "Pass the number of bytes that were exported");
  }
}

}  // namespace warpverbs::host
