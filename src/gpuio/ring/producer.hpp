#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "gpuio/ring/layout.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio.h"

namespace warpverbs::inline v0_2::gpuio {

/// The application's side of a ring.
///
/// One thread prepares and one takes completions; they may run at the same time, and share no lock.
/// Fail() may be any thread's.
class RingProducer {
 public:
  /// Continues a ring; a zeroed one is empty. Requests that no daemon has taken, and completions that nobody
  /// has taken, are in it still. No state of its memory is undefined behaviour.
  ///
  /// @pre  no request is under way: those are to be seen nowhere in the memory
  explicit RingProducer(const RingMemory& memory);

  const RingMemory& memory() const { return memory_; }

  /// Submits a request. The preparing thread's.
  ///
  /// @param args  `userdata` comes back with its completion
  /// @return  its slot; -EAGAIN: the ring is full; -EIO: the other side has damaged the ring
  int Prepare(const IoArgs& args);

  /// Takes the completions that are there. The waiting thread's.
  ///
  /// @return  how many; a completion of a slot without a request is dropped
  size_t Take(std::span<hf3fs_cqe> cqes);

  /// Completes all requests that a daemon took and never answered.
  ///
  /// @pre   no daemon uses the ring
  /// @param error        errno value
  /// @param also_queued  whether requests that no daemon took fail, too; otherwise the next daemon takes them
  void Fail(int error, bool also_queued);

 private:
  enum SlotState : uint8_t { kFree, kPreparing, kPrepared };

  /// Marks the slot of a request that is in the memory already.
  void Continue(int32_t slot, uint64_t userdata);
  void Free(int slot);
  /// Returns the place in `free_` behind another one.
  int NextFree(int place) const { return place + 1 == static_cast<int>(free_.size()) ? 0 : place + 1; }

  const RingMemory memory_;
  std::vector<std::atomic<uint8_t>> states_;
  std::vector<std::atomic<uint64_t>> userdata_;

  // A queue of free slots, from the waiting thread to the preparing one. Has room for all slots: this side
  // uses one less, but another library may use any.
  std::vector<std::atomic<int>> free_;
  std::atomic<int> free_head_{0}, free_tail_{0};

  sync::Mutex taking_;  // keeps Fail() apart from Take(); the preparing thread never locks it
  std::deque<hf3fs_cqe> failed_ WARPVERBS_GUARDED_BY(taking_);
};

}  // namespace warpverbs::inline v0_2::gpuio
