#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "log/log.hpp"
#include "memory/gpu_access.hpp"
#include "memory/locked_memory.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"
#include "warpverbs/host/pointer_info.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

int VerbsAccess(const Access& access) {
  return (access.nic_writes() ? IBV_ACCESS_LOCAL_WRITE : 0) |
         (access.remote_read ? IBV_ACCESS_REMOTE_READ : 0) |
         (access.remote_write ? IBV_ACCESS_REMOTE_WRITE : 0) |
         (access.remote_atomic ? IBV_ACCESS_REMOTE_ATOMIC : 0) |
         (access.relaxed_ordering ? IBV_ACCESS_RELAXED_ORDERING : 0);
}

std::string Range(const void* memory, size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%zu bytes at %p", bytes, memory);
  return text;
}

/// Names a region for errors: its range, its kind of memory, and the device.
std::string Object(const Device& device, const void* memory, size_t bytes, const PointerInfo& pointer) {
  const std::string ordinal = std::to_string(pointer.ordinal);
  const std::string gpu = pointer.on_gpu()                    ? ", cuda:" + ordinal
                          : pointer.kind == PointerKind::kHip ? ", hip:" + ordinal
                                                              : "";
  return Range(memory, bytes) + " (" + ToString(pointer.kind) + gpu + ") on " + device.name();
}

/// Warns about a range that starts in the middle of a cache line or bus burst.
void CheckAlignment(const Device& device, const void* memory, size_t bytes, const PointerInfo& pointer) {
  constexpr size_t kAligned = 256;  // alignment of cudaMalloc() and hipMalloc()
  const bool on_gpu = pointer.on_gpu() || pointer.kind == PointerKind::kHip;
  if (!on_gpu || bytes < kAligned || reinterpret_cast<uintptr_t>(memory) % kAligned == 0) return;
  WarnOnce("memory of GPUs on " + device.name(),
           Range(memory, bytes) +
               " do not begin at a multiple of 256, so they share cache lines with the memory before them, "
               "which may cost time; align buffers as cudaMalloc() does");
}

/// Returns the access that a region on `device` may grant.
Access Grantable(const Device& device, Access access, const std::string& object) {
  if (access.relaxed_ordering && access.remote_atomic) {
    throw Error("register", object,
                "it asks for both atomics, which need ordered writes, and relaxed ordering",
                "Register one region for each");
  }
  access.remote_atomic = access.remote_atomic && device.capabilities().atomics();
  return access;
}

size_t WholeHostPages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

void MemoryRegion::Deregister::operator()(ibv_mr* region) const { ibv_dereg_mr(region); }

MemoryRegion::MemoryRegion(const Device& device, void* memory, size_t bytes, const Access& access) try
    : memory_(memory), bytes_(bytes) {
  const PointerInfo pointer = DescribePointer(memory);
  const std::string object = Object(device, memory, bytes, pointer);
  access_ = Grantable(device, access, object);
  CheckAlignment(device, memory, bytes, pointer);
  RegisterAs(pointer, device, object);
  Log(LogLevel::kDebug, [&] { return "registered " + object + " as " + ToString(method_); });
} catch (const Error& error) {
  Log(LogLevel::kInfo, [&] { return error.what(); });
  throw;
}

void MemoryRegion::RegisterAs(const PointerInfo& pointer, const Device& device, const std::string& object) {
  if (pointer.kind == PointerKind::kManaged) {
    throw Error("register", object,
                "it is managed memory, which moves between host and GPU while the NIC works on it",
                "Allocate it with cudaMalloc() or cudaMallocHost(), or their HIP equivalents");
  }
  if (!pointer.on_gpu() && pointer.kind != PointerKind::kHip) {
    const int error = RegisterByAddress(device);
    if (error == 0) return;
    throw Error("register", object, "by its address: " + PinningReason(error), PinningRemedy(error), error);
  }
  if (pointer.kind == PointerKind::kVmm && DescribeRange(memory_, bytes_).back().kind != PointerKind::kVmm) {
    throw Error("register", object, "a part of it is not mapped (cuMemMap())", "Register only mapped memory");
  }
  const auto check = [&](int error, const std::string& reason) {
    if (error != 0) throw Error("register", object, reason, PinningRemedy(error), error);
  };
  const GpuRegistration registration{.by_dma_buf =
                                         [&](const DmaBuf& buffer) {
                                           const int error = RegisterByDmaBuf(device, buffer);
                                           check(error, Error::DescribeErrno(error));
                                         },
                                     .by_address =
                                         [&] {
                                           const int error = RegisterByAddress(device);
                                           check(error, PinningReason(error));
                                         },
                                     .over_pcie = access_.over_pcie,
                                     .pointer = pointer};
  method_ = pointer.kind == PointerKind::kHip
                ? RegisterHipMemory(registration, memory_, bytes_, object)
                : RegisterGpuMemory(registration, Gpu(pointer.ordinal), memory_, bytes_, object);
}

MemoryRegion::MemoryRegion(const Device& device, const DmaBuf& buffer, void* memory, size_t bytes,
                           const Access& access) try
    : memory_(memory), bytes_(bytes), method_(RegistrationMethod::kDmaBuf) {
  const std::string object = Range(memory, bytes) + " (a dma-buf) on " + device.name();
  access_ = Grantable(device, access, object);
  if (!buffer.Covers(memory, bytes)) {
    throw Error("register", object,
                "the dma-buf has " + std::to_string(buffer.size()) + " bytes and does not cover the range",
                "Export the whole range");
  }
  const int error = RegisterByDmaBuf(device, buffer);
  if (error != 0) {
    throw Error("register", object, "by dma-buf: " + PinningReason(error), PinningRemedy(error), error);
  }
  Log(LogLevel::kDebug, [&] { return "registered " + object; });
} catch (const Error& error) {
  Log(LogLevel::kInfo, [&] { return error.what(); });
  throw;
}

int MemoryRegion::RegisterByAddress(const Device& device) {
  region_.reset(ibv_reg_mr(device.pd(), memory_, bytes_, VerbsAccess(access_)));
  return region_ ? 0 : errno;
}

int MemoryRegion::RegisterByDmaBuf(const Device& device, const DmaBuf& buffer) {
  region_.reset(ibv_reg_dmabuf_mr(device.pd(), buffer.OffsetOf(memory_), bytes_,
                                  reinterpret_cast<uint64_t>(memory_), buffer.fd(), VerbsAccess(access_)));
  return region_ ? 0 : errno;
}

MemoryView MemoryRegion::View() const {
  return {.addr = reinterpret_cast<uint64_t>(memory_),
          .bytes = bytes_,
          .lkey = region_->lkey,
          .rkey = region_->rkey,
          .access = access_};
}

const char* ToString(RegistrationMethod method) {
  switch (method) {
    case RegistrationMethod::kHost:
      return "host memory";
    case RegistrationMethod::kDmaBuf:
      return "GPU memory by dma-buf";
    case RegistrationMethod::kPeerMemory:
      return "GPU memory by peer memory";
  }
  return "unknown";
}

void UnmapPages::operator()(std::byte* pages) const { munmap(pages, bytes); }

HostPages::HostPages(size_t bytes) : pages_(nullptr, {WholeHostPages(bytes)}) {
  if (bytes == 0) {
    throw Error("allocate", "0 bytes of host memory", "an allocation cannot be empty",
                "Ask for 1 byte or more");
  }
  void* pages = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw Error::FromErrno("allocate", std::to_string(bytes) + " bytes of host memory", errno,
                           "Free some memory");
  }
  pages_.reset(static_cast<std::byte*>(pages));
}

}  // namespace warpverbs::inline v0_2::host
