#include "dma/copy.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

#include "dma/device_memory.hpp"
#include "dma/null_memory.hpp"

namespace softhca {
namespace {

/// Device with copies in flight; null: none. Completions do not count.
DeviceMemory* g_copying = nullptr;
/// Whether some of these copies go to processor memory.
bool g_copying_to_host = false;

template <class T>
void StoreRelease(uint8_t* to, uint64_t value) {
  std::atomic_ref(*reinterpret_cast<T*>(to)).store(static_cast<T>(value), std::memory_order_release);
}

/// Stores the low `bytes` of `value`: in one store if that is an aligned word, otherwise with the last byte
/// last.
void StoreTail(uint8_t* to, uint64_t value, size_t bytes) {
  if (bytes == 8 && reinterpret_cast<uintptr_t>(to) % 8 == 0) return StoreRelease<uint64_t>(to, value);
  if (bytes == 4 && reinterpret_cast<uintptr_t>(to) % 4 == 0) return StoreRelease<uint32_t>(to, value);
  std::memcpy(to, &value, bytes - 1);
  StoreRelease<uint8_t>(to + bytes - 1, value >> 8 * (bytes - 1));
}

/// Copies with the processor. The bytes from the last 8-byte boundary on are stored last, with release order:
/// programs poll single words, or the last byte of a message, for what a NIC writes.
///
/// @pre  bytes != 0
void CopyByProcessor(uint8_t* to, const uint8_t* from, size_t bytes) {
  const size_t tail = std::min(bytes, (reinterpret_cast<uintptr_t>(to) + bytes - 1) % 8 + 1);
  const size_t head = bytes - tail;
  uint64_t last = 0;
  std::memcpy(&last, from + head, tail);  // before the rest: source and target may overlap
  std::memmove(to, from, head);
  StoreTail(to + head, last, tail);
}

/// Copies from or to memory that may belong to a device.
bool CopyByDriver(uint8_t* to, const uint8_t* from, size_t bytes) {
  DeviceMemory* const target = DeviceOf(to);
  DeviceMemory* const source = DeviceOf(from);
  // Earlier copies must not land later than this one, nor be read before they have landed.
  if (source == nullptr && (target == nullptr || g_copying_to_host) && !WaitForCopies()) return false;
  if (target == nullptr && source == nullptr) {
    CopyByProcessor(to, from, bytes);
    return true;
  }
  g_copying = target != nullptr ? target : source;
  g_copying_to_host |= target == nullptr;
  if (source == nullptr) return target->Write(to, from, bytes);
  return target == nullptr ? source->CopyToHost(to, from, bytes)
                           : source->CopyToDevice(*target, to, from, bytes);
}

bool CopyZeros(uint8_t* to, size_t bytes);

/// @return  false if a device's memory is gone
bool CopyPiece(uint8_t* to, const uint8_t* from, size_t bytes) {
  if (IsNullMemory(to)) return true;
  if (IsNullMemory(from)) return CopyZeros(to, bytes);
  if (HasDeviceMemory()) return CopyByDriver(to, from, bytes);
  CopyByProcessor(to, from, bytes);
  return true;
}

bool CopyZeros(uint8_t* to, size_t bytes) {
  static constexpr uint8_t kZeros[4096] = {};
  for (size_t part = 0; bytes != 0; to += part, bytes -= part) {
    part = std::min(bytes, sizeof kZeros);
    if (!CopyPiece(to, kZeros, part)) return false;
  }
  return true;
}

}  // namespace

bool Copy(std::span<const Bytes> to, std::span<const Bytes> from) {
  size_t to_index = 0, from_index = 0, to_offset = 0, from_offset = 0;
  while (to_index < to.size() && from_index < from.size()) {
    const size_t bytes = std::min(to[to_index].size() - to_offset, from[from_index].size() - from_offset);
    uint8_t* const target = to[to_index].data() + to_offset;
    if (bytes != 0 && !CopyPiece(target, from[from_index].data() + from_offset, bytes)) return false;
    to_offset += bytes;
    from_offset += bytes;
    if (to_offset == to[to_index].size()) ++to_index, to_offset = 0;
    if (from_offset == from[from_index].size()) ++from_index, from_offset = 0;
  }
  return true;
}

bool CopyPart(std::span<const Bytes> to, uint64_t offset, std::span<const uint8_t> part) {
  for (const Bytes& piece : to) {
    if (part.empty()) return true;
    if (offset >= piece.size()) {
      offset -= piece.size();
      continue;
    }
    const size_t bytes = std::min<size_t>(piece.size() - offset, part.size());
    if (!CopyPiece(piece.data() + offset, part.data(), bytes)) return false;
    part = part.subspan(bytes);
    offset = 0;
  }
  return true;
}

bool WaitForCopies() {
  g_copying_to_host = false;
  DeviceMemory* const device = std::exchange(g_copying, nullptr);
  return device == nullptr || device->Synchronize();
}

bool IsAccessible(std::span<const Bytes> pieces) {
  return std::all_of(pieces.begin(), pieces.end(), [](const Bytes& piece) {
    DeviceMemory* const device = piece.empty() ? nullptr : DeviceOf(piece.data());
    uint8_t first = 0;
    return device == nullptr || device->Read(&first, piece.data(), sizeof first);
  });
}

}  // namespace softhca
