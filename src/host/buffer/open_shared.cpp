#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "buffer/shared_here.hpp"
#include "buffer/views.hpp"
#include "memory/bounds.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/pointer_info.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string OpenedObject(const SharedMemoryInfo& info) {
  return std::to_string(info.bytes) + " bytes that another process shares by " + ToString(info.kind);
}

std::byte* At(CudaAddress address) { return reinterpret_cast<std::byte*>(address); }

/// Returns the GPU that holds the memory. It may have another ordinal in each process.
Gpu GpuAt(const SharedMemoryInfo& info) {
  const CudaDriver& driver = CudaDriver::Load();
  const std::string wanted = info.pci_address.data();
  const int count = Gpu::Count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    char address[32] = {};
    if (driver.DeviceGet(&device, ordinal) == 0 &&
        driver.DeviceGetPCIBusId(address, sizeof address, device) == 0 && wanted == address) {
      return Gpu(ordinal);
    }
  }
  throw Error(
      "open", OpenedObject(info),
      "its GPU, " + wanted + ", is not among the " + std::to_string(count) + " that this process sees",
      "Check CUDA_VISIBLE_DEVICES");
}

/// A mapping by cuIpcOpenMemHandle().
class IpcMapping {
 public:
  IpcMapping(const Gpu& gpu, const SharedMemoryInfo& info) : context_(gpu.context()) {
    const CudaContext::Current current(*context_);
    CudaIpcHandle handle{};
    std::memcpy(handle.bytes, info.handle.data(), sizeof handle.bytes);
    context_->driver().Check(
        context_->driver().IpcOpenMemHandle(&base_, handle, kCudaIpcLazyPeerAccess), "open",
        OpenedObject(info) + " on " + context_->name(),
        "Check that the sharing process still runs and has not freed it, and that both see its GPU");
  }
  IpcMapping(IpcMapping&& other) noexcept : context_(std::move(other.context_)), base_(other.base_) {}
  ~IpcMapping() {
    if (context_ == nullptr) return;
    context_->Quietly([this](const CudaDriver& driver) { driver.IpcCloseMemHandle(base_); });
  }

  std::byte* base() const { return At(base_); }

 private:
  std::shared_ptr<const CudaContext> context_;
  CudaAddress base_ = 0;
};

class IpcBuffer final : public GpuView {
 public:
  IpcBuffer(const Gpu& gpu, IpcMapping mapping, const SharedMemoryInfo& info)
      : GpuView(gpu, mapping.base() + info.offset, info.bytes), mapping_(std::move(mapping)) {}

  std::string name() const override { return GpuView::name() + " that another process shares"; }

 private:
  IpcMapping mapping_;
};

/// A mapping of another process's cuMemCreate() memory at addresses of this process.
class HandleMapping {
 public:
  HandleMapping(const Gpu& gpu, const SharedMemory& shared)
      : driver_(&gpu.context()->driver()), bytes_(shared.info.allocation_bytes) {
    const CudaAccess access{.location = gpu.ordinal()};
    auto* const file = reinterpret_cast<void*>(static_cast<intptr_t>(shared.file.get()));
    int result = driver_->MemImportFromShareableHandle(&handle_, file, kCudaPosixFile);
    if (result == 0) result = driver_->MemAddressReserve(&base_, bytes_, 0, 0, 0);
    if (result == 0) {
      result = driver_->MemMap(base_, bytes_, 0, handle_, 0);
      mapped_ = result == 0;
    }
    if (result == 0) result = driver_->MemSetAccess(base_, bytes_, &access, 1);
    if (result == 0) return;
    GiveBack();
    driver_->Check(result, "open", OpenedObject(shared.info) + " on " + gpu.name(),
                   "Pass the file that came with the description");
  }
  HandleMapping(HandleMapping&& other) noexcept
      : driver_(std::exchange(other.driver_, nullptr)),
        bytes_(other.bytes_),
        handle_(other.handle_),
        base_(other.base_),
        mapped_(other.mapped_) {}
  ~HandleMapping() { GiveBack(); }

  std::byte* base() const { return At(base_); }

 private:
  void GiveBack() {
    if (driver_ == nullptr) return;
    if (mapped_) driver_->MemUnmap(base_, bytes_);
    if (base_ != 0) driver_->MemAddressFree(base_, bytes_);
    if (handle_ != 0) driver_->MemRelease(handle_);
  }

  const CudaDriver* driver_;
  size_t bytes_;
  CudaHandle handle_ = 0;
  CudaAddress base_ = 0;
  bool mapped_ = false;
};

class HandleBuffer final : public GpuView {
 public:
  HandleBuffer(const Gpu& gpu, HandleMapping mapping, const SharedMemoryInfo& info)
      : GpuView(gpu, mapping.base() + info.offset, info.bytes), mapping_(std::move(mapping)) {}

 private:
  HandleMapping mapping_;
};

/// Opens memory in the process that shares it. No driver does that, so the buffer uses the memory itself.
///
/// The description may come from a peer that changed it, so it opens only what this process has shared.
std::unique_ptr<Buffer> OpenOwn(const SharedMemoryInfo& info) {
  const auto refuse = [&](const char* reason, const char* remedy) {
    throw Error("open", std::to_string(info.bytes) + " bytes of this process itself", reason, remedy);
  };
  if (!IsSharedHere(info)) {
    refuse("this process has not shared them", "Pass a description that ShareByIpc() made, unchanged");
  }
  std::byte* const memory = At(info.address);
  const PointerInfo pointer = DescribePointer(memory);
  if (pointer.buffer_id != info.buffer_id || !pointer.on_gpu())
    refuse("they were freed", "Keep the memory allocated while others may open it");
  return WrapPointer(memory, info.bytes);
}

/// Refuses a description that promises more than the driver has opened: a buffer's bounds come from it.
void CheckRange(const IpcMapping& mapping, const SharedMemoryInfo& info) {
  const PointerInfo opened = DescribePointer(mapping.base());
  const uint64_t bytes = opened.base + opened.bytes - ToCuda(mapping.base());
  if (opened.bytes != 0 && IsWithin(info.offset, info.bytes, bytes)) return;
  throw Error("open", OpenedObject(info),
              "they are at offset " + std::to_string(info.offset) + ", and the driver opened " +
                  std::to_string(opened.bytes == 0 ? 0 : bytes) + " bytes",
              "Check what the sharing process sends: it must be what ShareByIpc() made", EINVAL);
}

std::unique_ptr<Buffer> OpenIpc(SharedMemory shared) {
  const SharedMemoryInfo& info = shared.info;
  if (info.process == SharedMemoryInfo::ThisProcess()) return OpenOwn(info);
  const Gpu gpu = GpuAt(info);
  IpcMapping mapping(gpu, info);
  CheckRange(mapping, info);
  return std::make_unique<IpcBuffer>(gpu, std::move(mapping), info);
}

std::unique_ptr<Buffer> OpenDmaBuf(SharedMemory shared) {
  const SharedMemoryInfo& info = shared.info;
  DmaBuf file(std::move(shared.file), info.address - info.offset, info.allocation_bytes);
  return WrapDmaBuf(std::move(file), At(info.address), info.bytes);
}

std::unique_ptr<Buffer> OpenHandle(SharedMemory shared) {
  if (!shared.file) {
    throw Error("open", OpenedObject(shared.info), "its file is missing",
                "Send it by SendShared(), or with SCM_RIGHTS");
  }
  const Gpu gpu = GpuAt(shared.info);
  return std::make_unique<HandleBuffer>(gpu, HandleMapping(gpu, shared), shared.info);
}

/// Openers, indexed by ShareKind.
constexpr std::array kOpeners{&OpenIpc, &OpenDmaBuf, &OpenHandle};

}  // namespace

std::unique_ptr<Buffer> Open(SharedMemory shared) {
  shared.info.Check();
  const auto open = kOpeners[static_cast<size_t>(shared.info.kind) - 1];
  return open(std::move(shared));
}

}  // namespace warpverbs::inline v0_2::host
