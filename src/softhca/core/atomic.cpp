#include "core/atomic.hpp"

#include <atomic>
#include <bit>
#include <cstring>

#include "core/hca.hpp"
#include "core/remote_memory.hpp"
#include "dma/copy.hpp"
#include "dma/device_memory.hpp"
#include "dma/null_memory.hpp"

namespace softhca {
namespace {

using mlx5::Syndrome;

/// Adds field by field: each bit set in `boundary` is the top bit of a field, and drops its carry.
uint64_t AddFields(uint64_t a, uint64_t b, uint64_t boundary) {
  return ((a & ~boundary) + (b & ~boundary)) ^ ((a ^ b) & boundary);
}

uint64_t Result(const AtomicOperands& operands, uint64_t old) {
  if (!operands.compare_swap) return AddFields(old, operands.swap_add, operands.boundary);
  if (((old ^ operands.compare) & operands.compare_mask) != 0) return old;
  return (old & ~operands.swap_mask) | (operands.swap_add & operands.swap_mask);
}

/// Applies the atomic to a word in processor memory.
///
/// @return  the old value, in the memory's own byte order
template <class T>
T Apply(uint8_t* memory, const AtomicOperands& operands) {
  std::atomic_ref word(*reinterpret_cast<T*>(memory));
  T old = word.load(std::memory_order_relaxed);
  while (!word.compare_exchange_weak(old, static_cast<T>(Result(operands, old)), std::memory_order_acq_rel)) {
  }
  return old;
}

/// Applies the atomic to a word in device memory: reads, computes and writes it through the device's driver.
/// Atomic with respect to everything this HCA does, but not to programs that run on the device.
AtomicResult ApplyInDevice(DeviceMemory& device, const Bytes& word, const AtomicOperands& operands) {
  static_assert(std::endian::native == std::endian::little);  // so 4 bytes are the low half
  uint64_t old = 0;
  if (!device.Read(reinterpret_cast<uint8_t*>(&old), word.data(), word.size())) {
    return {.refusal = Syndrome::kRemoteAccess};
  }
  uint64_t result = Result(operands, old);
  const Bytes source(reinterpret_cast<uint8_t*>(&result), word.size());
  if (!Copy(std::span(&word, 1), std::span(&source, 1))) return {.refusal = Syndrome::kRemoteAccess};
  return {.old = old};
}

}  // namespace

AtomicResult ExecuteAtomic(const QueuePair& target, uint64_t address, uint32_t rkey,
                           const AtomicOperands& operands) {
  if (!target.hca->config().atomics || address % operands.bytes != 0) {
    return {.refusal = Syndrome::kRemoteInvalidRequest};
  }
  const RemoteMemory memory = FindRemoteMemory(target, {address, rkey, operands.bytes}, kAccessRemoteAtomic);
  if (memory.refusal != Syndrome::kNone) return {.refusal = memory.refusal};
  const Bytes bytes = memory.span().front();
  uint8_t* const word = bytes.data();
  // An indirect key may cut the word, or move it.
  if (bytes.size() != operands.bytes || reinterpret_cast<uintptr_t>(word) % operands.bytes != 0 ||
      IsNullMemory(word))
    return {.refusal = Syndrome::kRemoteAccess};
  if (DeviceMemory* const device = DeviceOf(word)) return ApplyInDevice(*device, bytes, operands);
  if (!WaitForCopies()) return {.refusal = Syndrome::kRemoteAccess};
  return {.old = operands.bytes == 8 ? Apply<uint64_t>(word, operands) : Apply<uint32_t>(word, operands)};
}

std::array<uint8_t, 8> EncodeAtomicResponse(uint64_t old, uint32_t bytes) {
  std::array<uint8_t, 8> response{};
  if (bytes == 8) {
    std::memcpy(response.data(), &old, sizeof old);
  } else {
    const mlx5::Be32 value = mlx5::ToBe32(static_cast<uint32_t>(old));
    std::memcpy(response.data(), &value, sizeof value);
  }
  return response;
}

}  // namespace softhca
