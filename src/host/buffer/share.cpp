#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "buffer/shared_here.hpp"
#include "gpu/cuda_context.hpp"
#include "warpverbs/host/buffer.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/pointer_info.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

std::string SharedObject(size_t bytes, const PointerInfo& pointer) {
  return std::to_string(bytes) + " bytes of " + ToString(pointer.kind);
}

void NameGpu(SharedMemoryInfo& info, const Gpu& gpu) {
  const std::string& address = gpu.pci_address();
  std::copy_n(address.begin(), std::min(address.size(), info.pci_address.size() - 1),
              info.pci_address.begin());
}

/// Describes a part of an allocation.
///
/// @errors  Error: the range is not within the allocation
SharedMemoryInfo Describe(const void* memory, size_t bytes, const PointerInfo& pointer, ShareKind kind) {
  const uint64_t address = ToCuda(memory);
  const uint64_t offset = address - pointer.base;
  if (bytes == 0 || pointer.bytes == 0 || offset > pointer.bytes || bytes > pointer.bytes - offset) {
    throw Error(
        "share", SharedObject(bytes, pointer),
        "they are not within one " + std::string(kind == ShareKind::kVmmHandle ? "mapping" : "allocation"),
        "Share each allocation separately");
  }
  SharedMemoryInfo info{.kind = kind,
                        .bytes = bytes,
                        .offset = offset,
                        .allocation_bytes = pointer.bytes,
                        .address = address,
                        .buffer_id = pointer.buffer_id,
                        .process = SharedMemoryInfo::ThisProcess()};
  NameGpu(info, Gpu(pointer.ordinal));
  return info;
}

/// Explains why the memory has no IPC handle.
[[noreturn]] void RefuseIpc(size_t bytes, const PointerInfo& pointer) {
  if (pointer.kind == PointerKind::kVmm) {
    throw Error("share", SharedObject(bytes, pointer), "such memory has no IPC handle",
                "Share it by its handle or by dma-buf, and pass the file over a Unix socket");
  }
  if (pointer.kind == PointerKind::kDevice) {
    throw Error("share", SharedObject(bytes, pointer),
                "the driver has no IPC handle for it: it is from a pool, or from another process",
                "Share it by dma-buf, or in the process that allocated it");
  }
  throw Error("share", SharedObject(bytes, pointer), "it is not GPU memory",
              "Share memory of cudaMalloc(), or share host memory by a file");
}

}  // namespace

SharedMemory ShareByIpc(const void* memory, size_t bytes) {
  const PointerInfo pointer = DescribePointer(memory);
  if (pointer.kind != PointerKind::kDevice || !pointer.ipc) RefuseIpc(bytes, pointer);
  SharedMemory shared{Describe(memory, bytes, pointer, ShareKind::kCudaIpc)};
  const Gpu gpu(pointer.ordinal);
  const CudaContext& context = *gpu.context();
  const CudaContext::Current current(context);
  CudaIpcHandle handle{};
  context.driver().Check(context.driver().IpcGetMemHandle(&handle, pointer.base), "share",
                         std::to_string(bytes) + " bytes of memory of " + gpu.name(),
                         "Share it by dma-buf, or allocate it with cudaMalloc()");
  std::memcpy(shared.info.handle.data(), handle.bytes, sizeof handle.bytes);
  RememberSharedHere(shared.info);
  return shared;
}

SharedMemory ShareByDmaBuf(const Buffer& buffer) {
  const DmaBuf file = buffer.Export();
  const PointerInfo pointer = DescribePointer(buffer.data());
  SharedMemory shared{{.kind = ShareKind::kDmaBuf,
                       .bytes = buffer.size(),
                       .offset = file.OffsetOf(buffer.data()),
                       .allocation_bytes = file.size(),
                       .address = ToCuda(buffer.data()),
                       .buffer_id = pointer.buffer_id,
                       .process = SharedMemoryInfo::ThisProcess()},
                      file.file().Duplicate()};
  if (pointer.on_gpu()) NameGpu(shared.info, Gpu(pointer.ordinal));
  return shared;
}

SharedMemory ShareByHandle(const void* memory, size_t bytes) {
  const PointerInfo pointer = DescribePointer(memory);
  const auto refuse = [&](const char* reason, const char* remedy) {
    throw Error("share", SharedObject(bytes, pointer), reason, remedy);
  };
  if (pointer.kind != PointerKind::kVmm)
    refuse("cuMemCreate() did not make it", "Share it by IPC or by dma-buf");
  if ((pointer.handle_types & kCudaPosixFile) == 0) {
    refuse("it was not created for export as a POSIX file",
           "Create it with CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, or share it by dma-buf");
  }
  SharedMemory shared{Describe(memory, bytes, pointer, ShareKind::kVmmHandle)};
  const CudaDriver& driver = CudaDriver::Load();
  CudaHandle handle = 0;
  int fd = -1;
  int result = driver.MemRetainAllocationHandle(&handle, const_cast<void*>(memory));
  if (result == 0) {
    result = driver.MemExportToShareableHandle(&fd, handle, kCudaPosixFile, 0);
    driver.MemRelease(handle);
  }
  shared.file = FileDescriptor(fd);  // owned before anything throws
  driver.Check(result, "share", SharedObject(bytes, pointer), "Share it by dma-buf");
  fcntl(fd, F_SETFD, FD_CLOEXEC);  // the driver does not guarantee it
  return shared;
}

SharedMemory Share(void* memory, size_t bytes) {
  std::string reasons;
  const auto attempt = [&](const char* way, const auto& share, SharedMemory& shared) {
    try {
      shared = share();
      return true;
    } catch (const Error& error) {
      reasons += (reasons.empty() ? "by " : "; by ") + std::string(way) + ": " + error.reason();
      return false;
    }
  };
  SharedMemory shared;
  if (attempt(
          "dma-buf", [&] { return ShareByDmaBuf(*WrapPointer(memory, bytes)); }, shared) ||
      attempt(
          "handle", [&] { return ShareByHandle(memory, bytes); }, shared) ||
      attempt(
          "IPC", [&] { return ShareByIpc(memory, bytes); }, shared)) {
    return shared;
  }
  throw Error("share", SharedObject(bytes, DescribePointer(memory)), reasons,
              "Share memory of cudaMalloc() on a GPU whose driver exports dma-bufs");
}

}  // namespace warpverbs::inline v0_2::host
