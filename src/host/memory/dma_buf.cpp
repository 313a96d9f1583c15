#include "warpverbs/host/dma_buf.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "gpu/cuda_context.hpp"
#include "log/log.hpp"
#include "memory/gpu_access.hpp"
#include "memory/page_range.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

uint64_t HostPage() { return static_cast<uint64_t>(sysconf(_SC_PAGESIZE)); }

/// @errors  Error: the driver is too old to map over PCIe; it would report only an invalid value
/// @source  CUDA driver API 12.8, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE
void CheckMapsOverPcie(const CudaDriver& driver, const std::string& object) {
  constexpr int kFirst = 12080;
  int version = 0;
  driver.Check(driver.DriverGetVersion(&version), "export", object, kPcieRemedy);
  if (version >= kFirst) return;
  throw Error("export", object,
              "a mapping over PCIe needs CUDA 12.8, and the driver has CUDA " +
                  std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10),
              kPcieRemedy);
}

}  // namespace

DmaBuf::DmaBuf(const Gpu& gpu, const void* memory, size_t bytes, const DmaBufConfig& config) {
  const PageRange pages = PageRange::Around(ToCuda(memory), bytes, HostPage());
  start_ = pages.start;
  size_ = pages.bytes;
  const CudaContext& context = *gpu.context();
  const CudaContext::Current current(context);
  const CudaDriver& driver = context.driver();
  const std::string object = std::to_string(bytes) + " bytes of memory of " + gpu.name();
  if (config.over_pcie) CheckMapsOverPcie(driver, object);
  int fd = -1;
  const int result = driver.MemGetHandleForAddressRange(&fd, start_, size_, kCudaDmaBufFd,
                                                        config.over_pcie ? kCudaDmaBufOverPcie : 0);
  file_ = FileDescriptor(fd);  // owned before anything throws
  if (result != 0 && config.over_pcie) {
    throw Error("export", object, "over PCIe: " + driver.Describe(result), kPcieRemedy,
                CudaDriver::Errno(result));
  }
  driver.Check(result, "export", object, kPeerMemoryRemedy);
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // the driver does not guarantee it
  Log(LogLevel::kTrace, [&] { return "exported " + object + (config.over_pcie ? " over PCIe" : ""); });
}

DmaBuf::DmaBuf(FileDescriptor file, uint64_t start, size_t bytes)
    : start_(start), size_(bytes), file_(std::move(file)) {
  const auto refuse = [this](const std::string& reason, const char* remedy) {
    throw Error("take", "a dma-buf of " + std::to_string(size_) + " bytes", reason, remedy);
  };
  if (!file_) refuse("no file is passed", "Pass the descriptor that the exporter gave");
  if (size_ == 0) refuse("it is empty", "Pass the number of bytes that were exported");
  if (start_ % HostPage() != 0) {
    refuse("its address is not page-aligned",
           "Pass the address of the file's first byte, not of a place in it");
  }
  const off_t length = lseek(fd(), 0, SEEK_END);  // fails for some kinds of file
  if (length > 0 && static_cast<uint64_t>(length) < size_) {
    refuse("the file has " + std::to_string(length), "Pass the number of bytes that were exported");
  }
}

}  // namespace warpverbs::inline v0_2::host
