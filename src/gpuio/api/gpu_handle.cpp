#include "gpuio/api/gpu_handle.hpp"

#include <cstdio>
#include <cstring>
#include <span>

namespace warpverbs::inline v0_2::gpuio {
namespace {

// The bits behind CUDA's handle, from the lowest.
constexpr int kSizeBits = 41, kOffsetBits = 41, kDomainBits = 16, kBusBits = 8, kDeviceBits = 5,
              kSpareBits = 1, kCrcBits = 16;
static_assert(kSizeBits + kOffsetBits + kDomainBits + kBusBits + kDeviceBits + kSpareBits + kCrcBits == 128);
constexpr size_t kIpcBytes = host::SharedMemoryInfo::kHandleBytes;
constexpr size_t kSealedBytes = sizeof(hf3fs_gpu_ipc_handle_t) - kCrcBits / 8;

/// CRC-16/CCITT: finds any one, two, or odd number of flipped bits.
uint16_t Crc16(std::span<const uint8_t> bytes) {
  uint16_t crc = 0xffff;
  for (const uint8_t byte : bytes) {
    crc = static_cast<uint16_t>(crc ^ (byte << 8));
    for (int bit = 0; bit < 8; ++bit)
      crc = static_cast<uint16_t>((crc << 1) ^ ((crc & 0x8000) != 0 ? 0x1021 : 0));
  }
  return crc;
}

class BitWriter {
 public:
  explicit BitWriter(std::span<uint8_t> to) : to_(to) {}
  void Put(uint64_t value, int bits) {
    for (int i = 0; i < bits; ++i, ++at_) {
      if (((value >> i) & 1) != 0) to_[at_ / 8] = static_cast<uint8_t>(to_[at_ / 8] | (1U << (at_ % 8)));
    }
  }

 private:
  std::span<uint8_t> to_;
  size_t at_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::span<const uint8_t> from) : from_(from) {}
  uint64_t Get(int bits) {
    uint64_t value = 0;
    for (int i = 0; i < bits; ++i, ++at_) value |= uint64_t{(from_[at_ / 8] >> (at_ % 8)) & 1U} << i;
    return value;
  }

 private:
  std::span<const uint8_t> from_;
  size_t at_ = 0;
};

}  // namespace

std::optional<hf3fs_gpu_ipc_handle_t> ToHandle(const host::SharedMemoryInfo& info) {
  unsigned domain = 0, bus = 0, device = 0, function = 0;
  int end = 0;
  const char* const address = info.pci_address.data();
  const int fields = std::sscanf(address, "%4x:%2x:%2x.%1x%n", &domain, &bus, &device, &function, &end);
  if (fields != 4 || address[end] != '\0' || device >= 1U << kDeviceBits || function != 0)
    return std::nullopt;
  if (info.bytes >> kSizeBits != 0 || info.offset >> kOffsetBits != 0) return std::nullopt;
  hf3fs_gpu_ipc_handle_t handle{};
  std::memcpy(handle.data, info.handle.data(), kIpcBytes);
  BitWriter bits(std::span(handle.data).subspan(kIpcBytes));
  bits.Put(info.bytes, kSizeBits);
  bits.Put(info.offset, kOffsetBits);
  bits.Put(domain, kDomainBits);
  bits.Put(bus, kBusBits);
  bits.Put(device, kDeviceBits);
  bits.Put(0, kSpareBits);
  bits.Put(Crc16(std::span(handle.data).first(kSealedBytes)), kCrcBits);
  return handle;
}

std::optional<host::SharedMemoryInfo> FromHandle(const hf3fs_gpu_ipc_handle_t& handle) {
  BitReader bits(std::span(handle.data).subspan(kIpcBytes));
  host::SharedMemoryInfo info{.kind = host::ShareKind::kCudaIpc};
  info.bytes = bits.Get(kSizeBits);
  info.offset = bits.Get(kOffsetBits);
  const auto domain = static_cast<unsigned>(bits.Get(kDomainBits));
  const auto bus = static_cast<unsigned>(bits.Get(kBusBits));
  const auto device = static_cast<unsigned>(bits.Get(kDeviceBits));
  const bool spare = bits.Get(kSpareBits) != 0;
  const bool is_whole = bits.Get(kCrcBits) == Crc16(std::span(handle.data).first(kSealedBytes));
  if (!is_whole || spare || info.bytes == 0) return std::nullopt;
  info.allocation_bytes = info.offset + info.bytes;  // the driver knows the allocation; more is not promised
  info.address = info.offset;
  std::snprintf(info.pci_address.data(), info.pci_address.size(), "%04x:%02x:%02x.0", domain, bus, device);
  std::memcpy(info.handle.data(), handle.data, kIpcBytes);
  return info;
}

}  // namespace warpverbs::inline v0_2::gpuio
