#pragma once

#include <semaphore.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "warpverbs/version.hpp"

/// The ring of an application and the daemon in shared memory.
///
/// It has four counters, then for each slot an IoArgs, then the completions, then the submissions, then a
/// semaphore that counts arrivals of completions. One slot more than the ring's entries, so that a full queue
/// differs from an empty one. A queue's head is where its producer writes next, its tail where its consumer
/// reads next; both wrap at the number of slots.
///
/// The other side may write anything at any time: each word is copied once, by an atomic load, then checked.
namespace warpverbs::inline v0_2::gpuio {

/// An I/O request. The application writes it before its index is submitted.
struct IoArgs {
  std::array<uint8_t, 16> buffer{};  ///< name of the iov
  uint64_t buffer_offset = 0;
  uint64_t file = 0;  ///< inode
  uint64_t file_offset = 0;
  uint64_t bytes = 0;
  uint64_t userdata = 0;

  friend bool operator==(const IoArgs&, const IoArgs&) = default;
};
static_assert(sizeof(IoArgs) == 56);

struct IoCqe {
  int32_t index = 0;
  int32_t reserved = 0;
  int64_t result = 0;
  uint64_t userdata = 0;

  friend bool operator==(const IoCqe&, const IoCqe&) = default;
};
static_assert(sizeof(IoCqe) == 24);

struct IoSqe {
  int32_t index = 0;
  int32_t reserved = 0;
  uint64_t userdata = 0;

  friend bool operator==(const IoSqe&, const IoSqe&) = default;
};
static_assert(sizeof(IoSqe) == 16);

/// Returns the bytes of a ring; 0: too few or too many entries.
constexpr size_t RingBytes(int entries);
/// Returns the entries of a ring that takes `bytes`; 0: too few bytes or too many.
constexpr int RingEntries(size_t bytes);

/// Where a ring's parts are. Owns nothing.
class RingMemory {
 public:
  static constexpr int kMaxEntries = 1 << 20;
  static constexpr size_t kCounterBytes = 16, kSemaphoreBytes = 32, kSlackBytes = 4096;
  static constexpr size_t kSlotBytes = sizeof(IoArgs) + sizeof(IoCqe) + sizeof(IoSqe);
  static_assert(sizeof(sem_t) <= kSemaphoreBytes);

  RingMemory() = default;
  /// @param memory   RingBytes(entries) bytes, aligned for a sem_t
  RingMemory(std::byte* memory, int entries) : memory_(memory), slots_(entries + 1) {}

  int entries() const { return slots_ - 1; }
  int slots() const { return slots_; }
  bool IsSlot(int32_t value) const { return value >= 0 && value < slots_; }
  int Next(int slot) const { return slot + 1 == slots_ ? 0 : slot + 1; }
  /// Returns how far `head` is ahead of `tail`.
  int Distance(int tail, int head) const { return head >= tail ? head - tail : head - tail + slots_; }

  std::atomic_ref<int32_t> sqe_head() const { return Counter(0); }
  std::atomic_ref<int32_t> sqe_tail() const { return Counter(1); }
  std::atomic_ref<int32_t> cqe_head() const { return Counter(2); }
  std::atomic_ref<int32_t> cqe_tail() const { return Counter(3); }

  // Each copies word by word: the other side may write meanwhile, which must not become undefined behaviour.
  IoArgs LoadArgs(int slot) const { return Load<IoArgs>(ArgsAt(slot)); }
  void StoreArgs(int slot, const IoArgs& args) const { Store(ArgsAt(slot), args); }
  IoCqe LoadCqe(int slot) const { return Load<IoCqe>(CqeAt(slot)); }
  void StoreCqe(int slot, const IoCqe& cqe) const { Store(CqeAt(slot), cqe); }
  IoSqe LoadSqe(int slot) const { return Load<IoSqe>(SqeAt(slot)); }
  void StoreSqe(int slot, const IoSqe& sqe) const { Store(SqeAt(slot), sqe); }

  sem_t* semaphore() const { return reinterpret_cast<sem_t*>(SqeAt(slots_)); }

  /// Not 0 once the daemon has closed the ring: it takes and completes nothing any more. In the slack behind
  /// the semaphore, which 3FS leaves unused.
  std::atomic_ref<int32_t> is_closed() const {
    return std::atomic_ref<int32_t>(*reinterpret_cast<int32_t*>(SqeAt(slots_) + kSemaphoreBytes));
  }

 private:
  std::byte* ArgsAt(int slot) const {
    return memory_ + kCounterBytes + sizeof(IoArgs) * static_cast<size_t>(slot);
  }
  std::byte* CqeAt(int slot) const { return ArgsAt(slots_) + sizeof(IoCqe) * static_cast<size_t>(slot); }
  std::byte* SqeAt(int slot) const { return CqeAt(slots_) + sizeof(IoSqe) * static_cast<size_t>(slot); }
  std::atomic_ref<int32_t> Counter(size_t index) const {
    return std::atomic_ref<int32_t>(reinterpret_cast<int32_t*>(memory_)[index]);
  }

  template <class T>
  static T Load(std::byte* from) {
    std::array<uint64_t, sizeof(T) / 8> words{};
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = std::atomic_ref(reinterpret_cast<uint64_t*>(from)[i]).load(std::memory_order_relaxed);
    }
    return std::bit_cast<T>(words);
  }
  template <class T>
  static void Store(std::byte* to, const T& value) {
    std::array<uint64_t, sizeof(T) / 8> words{};
    std::memcpy(words.data(), &value, sizeof value);
    for (size_t i = 0; i < words.size(); ++i) {
      std::atomic_ref(reinterpret_cast<uint64_t*>(to)[i]).store(words[i], std::memory_order_relaxed);
    }
  }

  std::byte* memory_ = nullptr;
  int slots_ = 1;
};
static_assert(RingMemory::kSlotBytes == 96);

constexpr size_t RingBytes(int entries) {
  if (entries <= 0 || entries > RingMemory::kMaxEntries) return 0;
  return RingMemory::kCounterBytes + RingMemory::kSemaphoreBytes +
         RingMemory::kSlotBytes * (static_cast<size_t>(entries) + 1) + RingMemory::kSlackBytes;
}
static_assert(RingBytes(64) == 10384);

constexpr int RingEntries(size_t bytes) {
  constexpr size_t kFixed = RingMemory::kCounterBytes + RingMemory::kSemaphoreBytes + RingMemory::kSlackBytes;
  if (bytes < kFixed + 2 * RingMemory::kSlotBytes || bytes > RingBytes(RingMemory::kMaxEntries)) return 0;
  return static_cast<int>((bytes - kFixed) / RingMemory::kSlotBytes) - 1;
}
static_assert(RingEntries(10384) == 64);

}  // namespace warpverbs::inline v0_2::gpuio
