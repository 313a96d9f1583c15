#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/host/error.hpp"
#include "warpverbs/host/shared_memory.hpp"

namespace warpverbs::host {
namespace {

/// Where the fields lie in the bytes. All numbers are in network order.
struct SharedMemoryLayout {
  static constexpr uint32_t kMagic = 0x5756534d;  // "WVSM"
  static constexpr size_t kMagicAt = 0, kVersionAt = 4, kLengthAt = 6, kKindAt = 8, kBytesAt = 12,
                          kOffsetAt = 20, kAllocationAt = 28, kAddressAt = 36, kBufferIdAt = 44,
                          kProcessAt = 52, kPciAt = 60, kHandleAt = 76, kCrcAt = 156;
  static_assert(kHandleAt + SharedMemoryInfo::kHandleBytes <= kCrcAt);
  static_assert(kCrcAt + 4 == SharedMemoryInfo::kBytes);

  static constexpr char kSendItAgain[] = "Send it again, whole and unchanged";

  static void Put(std::span<uint8_t> bytes, size_t at, size_t count, uint64_t value) {
    for (size_t i = 0; i < count; ++i) bytes[at + i] = static_cast<uint8_t>(value >> 8 * (count - 1 - i));
  }

  static uint64_t Get(std::span<const uint8_t> bytes, size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = 0; i < count; ++i) value = value << 8 | bytes[at + i];
    return value;
  }

  [[noreturn]] static void Refuse(const std::string& reason, const std::string& remedy) {
    throw Error("read", "the description of shared memory", reason, remedy);
  }
};
using Layout = SharedMemoryLayout;

/// Throws unless the bytes are whole and of this version.
void CheckFrame(std::span<const uint8_t> bytes) {
  if (bytes.size() < Layout::kVersionAt || Layout::Get(bytes, Layout::kMagicAt, 4) != Layout::kMagic) {
    Layout::Refuse("it does not begin as such a description does", "Pass what ToBytes() made");
  }
  // The version goes before the length: another version may have another length.
  if (bytes.size() >= Layout::kLengthAt) {
    const uint64_t version = Layout::Get(bytes, Layout::kVersionAt, 2);
    if (version != SharedMemoryInfo::kVersion) {
      Layout::Refuse(
          "it has version " + std::to_string(version) + ", not " + std::to_string(SharedMemoryInfo::kVersion),
          "Use the same release of warpverbs on both sides");
    }
  }
  if (bytes.size() != SharedMemoryInfo::kBytes || Layout::Get(bytes, Layout::kLengthAt, 2) != bytes.size()) {
    Layout::Refuse(
        "it has " + std::to_string(bytes.size()) + " bytes, not " + std::to_string(SharedMemoryInfo::kBytes),
        Layout::kSendItAgain);
  }
  if (Layout::Get(bytes, Layout::kCrcAt, 4) != Crc32(bytes.first(Layout::kCrcAt))) {
    Layout::Refuse("its checksum is wrong", Layout::kSendItAgain);
  }
}

}  // namespace

void SharedMemoryInfo::Check() const {
  const auto refuse = [](const char* field) {
    Layout::Refuse(std::string(field) + " is out of range",
                   "Take it from the process that shares the memory");
  };
  if (kind < ShareKind::kCudaIpc || kind > ShareKind::kVmmHandle) refuse("the kind");
  if (bytes == 0 || bytes > allocation_bytes) refuse("the size");
  if (offset > allocation_bytes - bytes) refuse("the offset");
  if (address < offset || address > UINT64_MAX - bytes) refuse("the address");
  if (pci_address.back() != 0) refuse("the PCI address");
}

std::array<uint8_t, SharedMemoryInfo::kBytes> SharedMemoryInfo::ToBytes() const {
  std::array<uint8_t, kBytes> out{};
  Layout::Put(out, Layout::kMagicAt, 4, Layout::kMagic);
  Layout::Put(out, Layout::kVersionAt, 2, kVersion);
  Layout::Put(out, Layout::kLengthAt, 2, kBytes);
  Layout::Put(out, Layout::kKindAt, 1, static_cast<uint8_t>(kind));
  Layout::Put(out, Layout::kBytesAt, 8, bytes);
  Layout::Put(out, Layout::kOffsetAt, 8, offset);
  Layout::Put(out, Layout::kAllocationAt, 8, allocation_bytes);
  Layout::Put(out, Layout::kAddressAt, 8, address);
  Layout::Put(out, Layout::kBufferIdAt, 8, buffer_id);
  Layout::Put(out, Layout::kProcessAt, 8, process);
  std::copy(pci_address.begin(), pci_address.end(), out.begin() + Layout::kPciAt);
  std::copy(handle.begin(), handle.end(), out.begin() + Layout::kHandleAt);
  Layout::Put(out, Layout::kCrcAt, 4, Crc32(std::span(out).first(Layout::kCrcAt)));
  return out;
}

SharedMemoryInfo SharedMemoryInfo::FromBytes(std::span<const uint8_t> in) {
  CheckFrame(in);
  SharedMemoryInfo info;
  info.kind = static_cast<ShareKind>(in[Layout::kKindAt]);
  info.bytes = Layout::Get(in, Layout::kBytesAt, 8);
  info.offset = Layout::Get(in, Layout::kOffsetAt, 8);
  info.allocation_bytes = Layout::Get(in, Layout::kAllocationAt, 8);
  info.address = Layout::Get(in, Layout::kAddressAt, 8);
  info.buffer_id = Layout::Get(in, Layout::kBufferIdAt, 8);
  info.process = Layout::Get(in, Layout::kProcessAt, 8);
  std::copy_n(in.begin() + Layout::kPciAt, info.pci_address.size(), info.pci_address.begin());
  std::copy_n(in.begin() + Layout::kHandleAt, info.handle.size(), info.handle.begin());
  info.Check();
  return info;
}

uint64_t SharedMemoryInfo::ThisProcess() {
  static const uint64_t drawn = [] {
    uint64_t value = 0;
    if (getrandom(&value, sizeof value, 0) != sizeof value) value = 0;  // then pids must do
    return value;
  }();
  return drawn + static_cast<uint64_t>(getpid());  // who forks from this one has drawn the same
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

}  // namespace warpverbs::host
