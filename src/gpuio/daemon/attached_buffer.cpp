#include "gpuio/daemon/attached_buffer.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "gpuio/control/letters.hpp"
#include "gpuio/control/log.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/gpu.hpp"
#include "warpverbs/transport/rdma_transport.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Describes memory that came as a dma-buf as CUDA opens it.
host::SharedMemoryInfo ByIpc(const PublishedMemory& published) {
  host::SharedMemoryInfo info = published.memory.info;
  info.kind = host::ShareKind::kCudaIpc;
  info.handle = *published.ipc_handle;
  info.offset = published.ipc_offset;
  info.allocation_bytes = published.ipc_offset + info.bytes;  // the driver knows the allocation
  return info;
}

bool HasRunOut(int error) { return error == ENOMEM || error == EAGAIN || error == ENOSPC || error == EMFILE; }

/// Returns the device whose NICs memory of a GPU is registered on: the GPU. It is the daemon's own device
/// if both have the same NICs: one connection serves both then.
RegistrationDevice DeviceOf(const host::SharedMemoryInfo& info, const RegistrationDevice& own) {
  for (int gpu = 0; gpu < host::Gpu::Count(); ++gpu) {
    if (!AreEqualInAnyCase(host::Gpu(gpu).pci_address(), info.pci_address.data())) continue;
    const bool has_other_nics = transport::RdmaTransport::NicsOf(gpu, own.max_nics) !=
                                transport::RdmaTransport::NicsOf(own.device, own.max_nics);
    return has_other_nics ? RegistrationDevice{.device = gpu, .max_nics = own.max_nics} : own;
  }
  return own;  // CUDA_VISIBLE_DEVICES hides the GPU from the daemon
}

std::shared_ptr<RegisteredMemory> Register(host::SharedMemory shared, const RegistrationDevice& device) {
  auto memory = std::make_shared<RegisteredMemory>();
  memory->buffer = host::Open(std::move(shared));
  memory->registration.emplace(*memory->buffer, device.device,
                               transport::RdmaMemoryConfig{.max_nics = device.max_nics});
  return memory;
}

/// Registers memory of a GPU as CUDA opens it.
///
/// @param by_dma_buf  failure of its dma-buf, which an error names, too
std::shared_ptr<RegisteredMemory> RegisterByIpc(const PublishedMemory& published,
                                                const RegistrationDevice& device,
                                                const host::Error& by_dma_buf) {
  try {
    return Register({.info = ByIpc(published)}, device);
  } catch (const host::Error& by_ipc) {
    throw host::Error("register", std::to_string(published.memory.info.bytes) + " bytes of a GPU's memory",
                      "by its dma-buf: " + by_dma_buf.reason() + "; by IPC: " + by_ipc.reason(),
                      by_ipc.remedy(), by_ipc.error_number());
  }
}

/// Registers memory of a GPU by its dma-buf, or as CUDA opens it where no NIC takes the dma-buf.
std::shared_ptr<RegisteredMemory> RegisterGpuMemory(const PublishedMemory& published,
                                                    const RegistrationDevice& device) {
  if (!published.memory.file) return Register({.info = published.memory.info}, device);
  try {
    auto memory = Register({published.memory.info, published.memory.file.Duplicate()}, device);
    if (published.ipc_handle) memory->by_ipc = ByIpc(published);
    return memory;
  } catch (const host::Error& failure) {
    if (!published.ipc_handle || HasRunOut(failure.error_number())) throw;
    Log(LogLevel::kInfo, std::string("memory is opened by IPC in place of its dma-buf: ") + failure.what());
    return RegisterByIpc(published, device, failure);
  }
}

}  // namespace

bool AttachedBuffer::Contains(uint64_t offset, uint64_t bytes) const {
  if (memory_->mapping != nullptr && memory_->mapping->WasTruncated()) return false;
  if (bytes == 0 || offset > bytes_ || bytes > bytes_ - offset) return false;
  return block_bytes_ == 0 || offset / block_bytes_ == (offset + bytes - 1) / block_bytes_;
}

RegisteredRange AttachedBuffer::Remote(uint64_t offset, uint64_t bytes) const {
  const transport::RdmaMemory& registration = *memory_->registration;
  return {.memory = {.ptr = static_cast<std::byte*>(registration.data()) + offset_ + offset,
                     .access_key = registration.RemoteKey(),
                     .len = bytes},
          .device = registration.GetDevice()};
}

bool AttachedBuffer::FillWithZeros(uint64_t offset, uint64_t bytes) const {
  RegisteredMemory& memory = *memory_;
  if (memory.cannot_be_filled) return false;
  try {
    if (memory.by_ipc && memory.opened_by_ipc == nullptr)
      memory.opened_by_ipc = host::Open({.info = *memory.by_ipc});
    const host::Buffer& buffer = memory.opened_by_ipc != nullptr ? *memory.opened_by_ipc : *memory.buffer;
    buffer.Fill(offset_ + offset, bytes, std::byte{0});
    return true;
  } catch (const host::Error& error) {
    Log(LogLevel::kInfo, std::string("holes are sent as zeros from now on: ") + error.what());
    memory.cannot_be_filled = true;
    return false;
  }
}

std::unique_ptr<GuardedMapping> MapShmFile(const std::string& target, uid_t owner, int& error) {
  const std::string name = ShmNameOf(std::string_view(target));
  error = name.empty() ? EINVAL : 0;
  if (error != 0) return nullptr;
  // O_NONBLOCK: open() would wait for an application that has a lease on the file.
  host::FileDescriptor file(open(("/dev/shm/" + name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  error = !file || fstat(file.get(), &status) != 0 ? errno : 0;
  if (error != 0) return nullptr;
  if (owner != 0 && status.st_uid != owner) error = EACCES;
  if (!S_ISREG(status.st_mode) || status.st_size <= 0) error = EINVAL;
  if (error != 0) return nullptr;
  return GuardedMapping::Map(std::move(file), static_cast<size_t>(status.st_size), error);
}

std::shared_ptr<AttachedBuffer> AttachHostMemory(std::shared_ptr<GuardedMapping> mapping,
                                                 uint64_t block_bytes, const RegistrationDevice& device,
                                                 int& error) {
  auto memory = std::make_shared<RegisteredMemory>();
  memory->mapping = std::move(mapping);
  const size_t bytes = memory->mapping->size();
  error = 0;
  try {
    memory->buffer = host::WrapPointer(memory->mapping->data(), bytes);
    memory->registration.emplace(static_cast<void*>(memory->mapping->data()), bytes, device.device,
                                 transport::RdmaMemoryConfig{.max_nics = device.max_nics});
    return std::make_shared<AttachedBuffer>(std::move(memory), 0, bytes, block_bytes);
  } catch (const host::Error& failure) {
    Log(LogLevel::kError, failure.what());
    error = ENOMEM;
    return nullptr;
  }
}

std::shared_ptr<AttachedBuffer> AttachGpuMemory(const PublishedMemory& published,
                                                const RegistrationDevice& device, int& error) {
  error = 0;
  try {
    const RegistrationDevice nearest = DeviceOf(published.memory.info, device);
    auto buffer = std::make_shared<AttachedBuffer>(RegisterGpuMemory(published, nearest), 0,
                                                   published.memory.info.bytes, 0);
    buffer->ipc_handle = published.ipc_handle;
    buffer->ipc_offset = published.ipc_offset;
    if (published.memory.file) buffer->published = published.memory.info;
    return buffer;
  } catch (const host::Error& failure) {
    Log(LogLevel::kError, failure.what());
    error = HasRunOut(failure.error_number()) ? ENOMEM : ENOTSUP;
    return nullptr;
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
