#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "gpuio/api/arguments.hpp"
#include "gpuio/api/availability.hpp"
#include "gpuio/api/gpu_handle.hpp"
#include "gpuio/api/iov.hpp"
#include "gpuio/control/letters.hpp"
#include "gpuio/control/mount.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using IpcHandle = std::array<uint8_t, host::SharedMemoryInfo::kHandleBytes>;

int CheckGpuArguments(const hf3fs_iov* iov, const char* mount, size_t size, size_t block_size) {
  const bool valid = iov != nullptr && IsMountArgument(mount) && size != 0 && block_size == 0;
  return valid ? 0 : EINVAL;
}

int CheckGpu(int gpu) {
  if (!IsGpuMemoryAvailable()) return ENOTSUP;
  return gpu < 0 || gpu >= host::Gpu::Count() ? ENODEV : 0;
}

/// Runs what may throw host::Error.
///
/// @return  0, or `otherwise`
template <class Work>
int Try(int otherwise, const Work& work) {
  try {
    work();
    return 0;
  } catch (const host::Error& error) {
    Log(LogLevel::kError, error.what());
    return otherwise;
  }
}

/// Finds the ways by which the daemon and other processes get at memory.
///
/// @return  0; ENOTSUP: there is none
int ShareMemory(GpuIovMemory& gpu) {
  std::string reasons;
  try {
    gpu.published = host::ShareByDmaBuf(*gpu.memory);
    gpu.published.info.bytes = gpu.bytes;
  } catch (const host::Error& error) {
    reasons = error.what();
  }
  try {
    const host::SharedMemory by_ipc = host::ShareByIpc(gpu.memory->data(), gpu.bytes);
    gpu.ipc_handle = by_ipc.info.handle;
    gpu.ipc_offset = by_ipc.info.offset;
    gpu.allocation_bytes = by_ipc.info.allocation_bytes;
    if (!gpu.published.file) gpu.published.info = by_ipc.info;
  } catch (const host::Error& error) {
    reasons += (reasons.empty() ? "" : " ") + std::string(error.what());
  }
  if (gpu.published.file || gpu.ipc_handle) return 0;
  Log(LogLevel::kError,
      "Cannot publish " + std::to_string(gpu.bytes) + " bytes of " + gpu.memory->name() + ": " + reasons);
  return ENOTSUP;
}

std::string UriOf(const GpuIovMemory& gpu) {
  // A process that opens by IPC gets the whole allocation, not the pages that were exported.
  return GpuUri{
      .device = gpu.gpu,
      .allocation_bytes = gpu.ipc_handle ? gpu.allocation_bytes : gpu.published.info.allocation_bytes,
      .offset = gpu.ipc_handle ? gpu.ipc_offset : gpu.published.info.offset,
      .bytes = gpu.bytes,
      .ipc_handle = gpu.ipc_handle}
      .ToString();
}

/// Publishes memory of a GPU, and describes it as an iov.
int PublishGpuIov(hf3fs_iov& out, GpuIovMemory gpu, const IovId& id, const char* mount) {
  int error = 0;
  std::shared_ptr<DaemonSession> session = DaemonSession::Of(mount, error);
  if (error != 0) return error;
  const LinkName name{.id = id, .gpu = gpu.gpu};
  auto link = std::make_unique<PublishedLink>(session->mount(), name.ToString(), UriOf(gpu));
  void* const base = gpu.memory->data();
  const size_t bytes = gpu.bytes;
  auto iov = std::make_shared<Iov>(std::move(session), id, std::move(link));
  iov->gpu = std::move(gpu);
  error = PublishNew(*iov, iov);
  if (error != 0) return error;
  Describe(out, id, mount, base, bytes, 0, -1, std::move(iov));
  return 0;
}

/// Publishes memory that this process has allocated.
int ShareAndPublish(hf3fs_iov& out, GpuIovMemory gpu, const IovId& id, const char* mount) {
  const int error = ShareMemory(gpu);
  return error != 0 ? error : PublishGpuIov(out, std::move(gpu), id, mount);
}

#ifdef HF3FS_GDR_ENABLED

/// Returns the live iov of this process whose memory other processes open by a handle, or nullptr.
std::shared_ptr<Iov> FindByHandle(const IpcHandle& handle) {
  return Iovs().FindIf([&](const Iov& iov) { return iov.gpu && iov.gpu->ipc_handle == handle && iov.link; });
}

/// Opens memory that another process shares by IPC, or this one.
///
/// @return  0; EINVAL: it leaves its allocation; EIO: the driver cannot open it
int OpenByIpc(const host::SharedMemoryInfo& info, std::shared_ptr<host::Buffer>& opened) {
  if (const std::shared_ptr<Iov> own = FindByHandle(info.handle); own != nullptr) {
    const host::PointerInfo pointer = host::DescribePointer(own->gpu->memory->data());
    if (info.offset > pointer.bytes || info.bytes > pointer.bytes - info.offset) return EINVAL;
    return Try(EIO, [&] {
      // Keeps the memory of the iov that was exported.
      std::shared_ptr<host::Buffer> wrapped =
          host::WrapPointer(reinterpret_cast<void*>(pointer.base + info.offset), info.bytes);
      opened = {wrapped.get(), [keep = own->gpu->memory, wrapped](host::Buffer*) {}};
    });
  }
  try {
    opened = host::Open({.info = info});
    return 0;
  } catch (const host::Error& error) {
    Log(LogLevel::kError, error.what());
    return error.error_number() == EINVAL ? EINVAL : EIO;
  }
}

/// Finds the GPU at a PCI address, which drivers write in either case of letters.
///
/// @return  its ordinal; -1: it is not here
int FindGpu(std::array<char, 16>& pci_address) {
  const std::string wanted = pci_address.data();
  for (int ordinal = 0; ordinal < host::Gpu::Count(); ++ordinal) {
    const std::string address = host::Gpu(ordinal).pci_address();
    if (!AreEqualInAnyCase(address, wanted)) continue;
    pci_address = {};
    std::copy_n(address.begin(), std::min(address.size(), pci_address.size() - 1), pci_address.begin());
    return ordinal;
  }
  return -1;
}

int OpenPublished(hf3fs_iov& out, const IovId& id, const char* mount, size_t size, int gpu) {
  std::string target;
  const LinkName name{.id = id, .gpu = gpu};
  if (const int error = ReadLink(IovFolderOf(mount) + "/" + name.ToString(), target); error != 0)
    return error;
  const std::optional<GpuUri> uri = GpuUri::Parse(target);
  if (!uri || uri->device != gpu || uri->bytes != size) return EINVAL;
  GpuIovMemory opened{.gpu = gpu, .memory = nullptr, .bytes = size};
  const std::string place = CanonicalMount(mount);
  const std::shared_ptr<Iov> own = Iovs().FindIf([&](const Iov& iov) {
    // Ids are those of a mount: another mount may have this one, too.
    return iov.gpu && iov.gpu->bytes == size && iov.link && iov.link->name() == name.ToString() &&
           iov.link->mount() == place;
  });
  if (own != nullptr) {
    opened.memory = own->gpu->memory;
  } else {
    if (!uri->ipc_handle) return ENOTSUP;
    host::SharedMemoryInfo info{.kind = host::ShareKind::kCudaIpc,
                                .bytes = uri->bytes,
                                .offset = uri->offset,
                                .allocation_bytes = uri->allocation_bytes,
                                .address = uri->offset,
                                .handle = *uri->ipc_handle};
    const std::string address = host::Gpu(gpu).pci_address();
    std::copy_n(address.begin(), std::min(address.size(), info.pci_address.size() - 1),
                info.pci_address.begin());
    if (const int error = OpenByIpc(info, opened.memory); error != 0) return error;
  }
  void* const base = opened.memory->data();
  auto iov = std::make_shared<Iov>(nullptr, id, nullptr);
  iov->gpu = std::move(opened);
  Describe(out, id, mount, base, size, 0, -1, std::move(iov));
  return 0;
}

int WrapGpuPointer(hf3fs_iov& out, void* pointer, const IovId& id, const char* mount, size_t size, int gpu) {
  const host::PointerInfo info = host::DescribePointer(pointer);
  if (!info.on_gpu() || info.of_hip || info.ordinal != gpu) return EINVAL;
  const uint64_t offset = reinterpret_cast<uint64_t>(pointer) - info.base;
  if (info.bytes == 0 || offset > info.bytes || size > info.bytes - offset) return EINVAL;
  constexpr uint64_t kFastAlignment = 256;
  if (reinterpret_cast<uint64_t>(pointer) % kFastAlignment != 0)
    Log(LogLevel::kWarn,
        "a wrapped buffer does not begin at a multiple of 256 bytes: transfers may be slower");
  GpuIovMemory wrapped{.gpu = gpu, .memory = nullptr, .bytes = size};
  const int error = Try(EINVAL, [&] { wrapped.memory = host::WrapPointer(pointer, size); });
  return error != 0 ? error : ShareAndPublish(out, std::move(wrapped), id, mount);
}

#endif

std::shared_ptr<Iov> FindGpuIov(const hf3fs_iov* iov) {
  if (iov == nullptr) return nullptr;
  std::shared_ptr<Iov> found = Iovs().Find(iov->iovh);
  return found != nullptr && found->gpu ? found : nullptr;
}

int Sync(const hf3fs_iov* iov, int direction) {
  if (iov == nullptr || (direction != 0 && direction != 1)) return EINVAL;
  const std::shared_ptr<Iov> found = FindGpuIov(iov);
  if (found == nullptr) return 0;
  try {
    found->gpu->memory->Flush(static_cast<host::FlushDirection>(direction),
                              host::DeadlineIn(std::chrono::hours(24)));
    return 0;
  } catch (const host::Error& error) {
    Log(LogLevel::kError, error.what());
    return error.error_number() == ENODEV ? ENODEV : EIO;
  }
}

int Import(hf3fs_iov& out, const hf3fs_gpu_ipc_handle_t& handle, const char* mount) {
#ifdef HF3FS_GDR_ENABLED
  std::optional<host::SharedMemoryInfo> info = FromHandle(handle);
  if (!info) return EINVAL;
  if (!IsGpuMemoryAvailable()) return ENOTSUP;
  GpuIovMemory imported{.gpu = FindGpu(info->pci_address), .memory = nullptr, .bytes = info->bytes};
  if (imported.gpu < 0) return ENODEV;
  if (const int error = OpenByIpc(*info, imported.memory); error != 0) return error;
  imported.published.info = *info;
  imported.ipc_handle = info->handle;
  imported.ipc_offset = info->offset;
  imported.allocation_bytes = info->allocation_bytes;
  return PublishGpuIov(out, std::move(imported), RandomId(), mount);
#else
  static_cast<void>(out);
  static_cast<void>(handle);
  static_cast<void>(mount);
  return ENOTSUP;
#endif
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio

using namespace warpverbs;
using namespace warpverbs::gpuio;

extern "C" {

int hf3fs_iovcreate_gpu(hf3fs_iov* iov, const char* mount, size_t size, size_t block_size, int gpu) {
  return GuardedErrno([&] {
    int error = CheckGpuArguments(iov, mount, size, block_size);
    if (error == 0) error = CheckGpu(gpu);
    GpuIovMemory memory{.gpu = gpu, .memory = nullptr, .bytes = size};
    if (error == 0)
      error = Try(ENOMEM, [&] { memory.memory = host::CudaMemoryKind(host::Gpu(gpu)).Allocate(size); });
    if (error == 0) error = ShareAndPublish(*iov, std::move(memory), RandomId(), mount);
    return -error;
  });
}

int hf3fs_iovcreate_device(hf3fs_iov* iov, const char* mount, size_t size, size_t block_size, int device) {
  return hf3fs_iovcreate_gpu(iov, mount, size, block_size, device);
}

#ifdef HF3FS_GDR_ENABLED

int hf3fs_iovopen_gpu(hf3fs_iov* iov, const uint8_t id[16], const char* mount, size_t size, size_t block_size,
                      int gpu) {
  return GuardedErrno([&] {
    int error = id == nullptr ? EINVAL : CheckGpuArguments(iov, mount, size, block_size);
    if (error == 0) error = CheckGpu(gpu);
    if (error == 0) error = OpenPublished(*iov, IdOf(id), mount, size, gpu);
    return -error;
  });
}

int hf3fs_iovopen_device(hf3fs_iov* iov, const uint8_t id[16], const char* mount, size_t size,
                         size_t block_size, int device) {
  return hf3fs_iovopen_gpu(iov, id, mount, size, block_size, device);
}

int hf3fs_iovwrap_gpu(hf3fs_iov* iov, void* pointer, const uint8_t id[16], const char* mount, size_t size,
                      size_t block_size, int gpu) {
  return GuardedErrno([&] {
    int error =
        pointer == nullptr || id == nullptr ? EINVAL : CheckGpuArguments(iov, mount, size, block_size);
    if (error == 0) error = CheckGpu(gpu);
    if (error == 0) error = WrapGpuPointer(*iov, pointer, IdOf(id), mount, size, gpu);
    return -error;
  });
}

int hf3fs_iovwrap_device(hf3fs_iov* iov, void* pointer, const uint8_t id[16], const char* mount, size_t size,
                         size_t block_size, int device) {
  return hf3fs_iovwrap_gpu(iov, pointer, id, mount, size, block_size, device);
}

#endif

void hf3fs_iovunlink_gpu(hf3fs_iov* iov) { hf3fs_iovunlink(iov); }
void hf3fs_iovdestroy_gpu(hf3fs_iov* iov) { hf3fs_iovdestroy(iov); }

bool hf3fs_iov_is_gpu(const hf3fs_iov* iov) {
  return Guarded([&] { return FindGpuIov(iov) != nullptr; });
}

int hf3fs_iov_gpu_device(const hf3fs_iov* iov) {
  return Guarded(
      [&] {
        const std::shared_ptr<Iov> found = FindGpuIov(iov);
        return found == nullptr ? -1 : found->gpu->gpu;
      },
      -1);
}

int hf3fs_iov_device_id(const hf3fs_iov* iov) { return hf3fs_iov_gpu_device(iov); }

hf3fs_mem_type hf3fs_iov_mem_type(const hf3fs_iov* iov) {
  return hf3fs_iov_is_gpu(iov) ? HF3FS_MEM_DEVICE : HF3FS_MEM_HOST;
}

int hf3fs_iovsync_gpu(const hf3fs_iov* iov, int direction) {
  return GuardedErrno([&] { return -Sync(iov, direction); });
}

int hf3fs_iovsync(const hf3fs_iov* iov, int direction) { return hf3fs_iovsync_gpu(iov, direction); }

int hf3fs_iov_export_gpu(const hf3fs_iov* iov, hf3fs_gpu_ipc_handle_t* handle) {
  return GuardedErrno([&] {
    const std::shared_ptr<Iov> found = FindGpuIov(iov);
    if (found == nullptr || handle == nullptr) return -EINVAL;
    host::SharedMemory shared;
    const int error =
        Try(ENOTSUP, [&] { shared = host::ShareByIpc(found->gpu->memory->data(), found->gpu->bytes); });
    if (error != 0) return -error;
    const std::optional<hf3fs_gpu_ipc_handle_t> made = ToHandle(shared.info);
    if (!made) return -ENOTSUP;
    *handle = *made;
    return 0;
  });
}

int hf3fs_iov_import_gpu(hf3fs_iov* iov, const hf3fs_gpu_ipc_handle_t* handle, const char* mount) {
  if (iov == nullptr || handle == nullptr || !IsMountArgument(mount)) return -EINVAL;
  return GuardedErrno([&] { return -Import(*iov, *handle, mount); });
}

}  // extern "C"
