#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "locked_memory.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/memory.hpp"

namespace warpverbs::host {
namespace {

int VerbsAccess(const Access& access) {
  return (access.nic_writes() ? IBV_ACCESS_LOCAL_WRITE : 0) |
         (access.remote_read ? IBV_ACCESS_REMOTE_READ : 0) |
         (access.remote_write ? IBV_ACCESS_REMOTE_WRITE : 0) |
         (access.remote_atomic ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

std::string Range(const void* memory, size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%zu bytes at %p", bytes, memory);
  return text;
}

size_t WholePages(size_t bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (bytes + page - 1) / page * page;
}

}  // namespace

MemoryView MemoryView::Part(uint64_t offset, uint64_t part_bytes) const {
  if (offset > bytes || part_bytes > bytes - offset) {
    throw std::out_of_range("memory view: " + std::to_string(part_bytes) + " bytes at offset " +
                            std::to_string(offset) + " do not lie within " + std::to_string(bytes) +
                            " bytes");
  }
  return {addr + offset, part_bytes, lkey, rkey, access};
}

MemoryRegion::MemoryRegion(const Device& device, void* memory, size_t bytes, const Access& access)
    : region_(ibv_reg_mr(device.pd(), memory, bytes, VerbsAccess(access))), access_(access) {
  if (!region_) {
    const int error = errno;
    throw Error::FromErrno("register", Range(memory, bytes) + " on " + device.name(), error,
                           PinningRemedy(error));
  }
}

MemoryView MemoryRegion::View() const {
  return {reinterpret_cast<uint64_t>(region_->addr), region_->length, region_->lkey, region_->rkey, access_};
}

void UnmapPages::operator()(std::byte* pages) const { munmap(pages, bytes); }

HostPages::HostPages(size_t bytes) : pages_(nullptr, {WholePages(bytes)}) {
  if (bytes == 0) {
    throw Error("allocate", "0 bytes of host memory", "there is no empty page", "Ask for 1 byte or more");
  }
  void* pages = mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw Error::FromErrno("allocate", std::to_string(bytes) + " bytes of host memory", errno,
                           "Free some memory");
  }
  pages_.reset(static_cast<std::byte*>(pages));
}

}  // namespace warpverbs::host
