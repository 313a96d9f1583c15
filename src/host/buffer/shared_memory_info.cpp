#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "connect/sealed_bytes.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::inline v0_2::host {
namespace {

constexpr SealedFormat kSharedFormat{.magic = 0x5756534d,  // "WVSM"
                                     .version = SharedMemoryInfo::kVersion,
                                     .bytes = SharedMemoryInfo::kBytes,
                                     .object = "the description of shared memory",
                                     .kind = "a description of shared memory",
                                     .source = "Pass what ToBytes() made"};

}  // namespace

void SharedMemoryInfo::Check() const {
  const auto refuse = [](const char* field) {
    throw kSharedFormat.Refusal(std::string(field) + " is out of range",
                                "Take it from the process that shares the memory");
  };
  if (kind < ShareKind::kCudaIpc || kind > ShareKind::kVmmHandle) refuse("the kind");
  if (bytes == 0 || bytes > allocation_bytes) refuse("the size");
  if (offset > allocation_bytes - bytes) refuse("the offset");
  if (address < offset || address > UINT64_MAX - bytes) refuse("the address");
  if (pci_address.back() != 0) refuse("the PCI address");
}

std::array<uint8_t, SharedMemoryInfo::kBytes> SharedMemoryInfo::ToBytes() const {
  ByteWriter fields = kSharedFormat.Begin();
  fields.Put(1, static_cast<uint8_t>(kind));
  fields.Put(3, 0);
  for (const uint64_t number : {bytes, offset, allocation_bytes, address, buffer_id, process})
    fields.Put(8, number);
  for (const char letter : pci_address) fields.Put(1, static_cast<uint8_t>(letter));
  fields.Put(handle);
  std::array<uint8_t, kBytes> sealed{};
  kSharedFormat.Seal(fields, sealed);
  return sealed;
}

SharedMemoryInfo SharedMemoryInfo::FromBytes(std::span<const uint8_t> in) {
  ByteReader fields = kSharedFormat.Open(in);
  SharedMemoryInfo info;
  info.kind = static_cast<ShareKind>(fields.Get(1));
  fields.GetBytes(3);
  for (uint64_t* const number :
       {&info.bytes, &info.offset, &info.allocation_bytes, &info.address, &info.buffer_id, &info.process})
    *number = fields.Get(8);
  std::ranges::copy(fields.GetBytes(info.pci_address.size()), info.pci_address.begin());
  std::ranges::copy(fields.GetBytes(info.handle.size()), info.handle.begin());
  info.Check();
  return info;
}

uint64_t SharedMemoryInfo::ThisProcess() {
  static const uint64_t drawn = [] {
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, 0) != sizeof value) value = 0;  // then the pid alone must do
    return value;
  }();
  return drawn + static_cast<uint64_t>(getpid());  // a forked child has the same random value
}

const char* ToString(ShareKind kind) {
  switch (kind) {
    case ShareKind::kCudaIpc:
      return "CUDA IPC";
    case ShareKind::kDmaBuf:
      return "dma-buf";
    case ShareKind::kVmmHandle:
      return "handle of cuMemCreate()";
  }
  return "unknown";
}

}  // namespace warpverbs::inline v0_2::host
