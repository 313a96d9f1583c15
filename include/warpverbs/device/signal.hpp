#pragma once

#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/detail/signal.hpp"
#include "warpverbs/device/detail/waiter.hpp"

/// Telling the peer: a word of 8 bytes there that changes after the data is in place.
///
/// A word lies at a multiple of 8. Neither it nor the data lie in a region with relaxed ordering, which a
/// checked build refuses. One side signals, the other waits.
namespace warpverbs::inline v0_2::device {

/// Adds to the word: a counter. Any number of peers may.
WARPVERBS_DEVICE FetchAddOf<uint64_t> SignalAdd(const RemoteMemory& word, uint64_t addend = 1) {
  return FetchAdd(word, addend);
}

/// Replaces the word: a flag. Stored as this side stores it, so both must have the same byte order.
WARPVERBS_DEVICE SignalWrite SignalSet(const RemoteMemory& word, uint64_t value) { return {{word, value}}; }

/// Writes data, then signals: who sees the signal sees the data.
///
/// @source  IBTA 1.4, 9.7.3.3.3 and 9.5: a responder carries out a connection's requests in order
template <class Signal>
WARPVERBS_DEVICE SignalledWrite<Signal> PutSignal(const RemoteMemory& remote, const LocalMemory& local,
                                                  const Signal& signal) {
  return {{Write(remote, local), signal}};
}

/// Bumps a word once a completion queue has got `count` completions, with no thread that looks. For a queue
/// that is connected to its own side the word is a counter in local memory.
WARPVERBS_DEVICE Sequence<WaitCq, FetchAddOf<uint64_t>> CountCompletions(const WaitCq& completions,
                                                                         const RemoteMemory& word) {
  return {completions, SignalAdd(word)};
}

/// What a waiter waits for.
enum class Compare : uint8_t { kEqual, kNotEqual, kGreaterOrEqual };

/// Looks once whether a word of this side that the peer changes compares to `value`: kOk or kPending.
///
/// After kOk the loads that follow see what the peer wrote before it signalled. Greater or equal is unsigned.
template <arch::Arch A>
WARPVERBS_DEVICE Status TestSignal(const uint64_t* word, Compare compare, uint64_t value) {
  const uint64_t seen = A::Load(word);
  const bool met =
      compare == Compare::kGreaterOrEqual ? seen >= value : (seen == value) == (compare == Compare::kEqual);
  if (!met) return {.code = Code::kPending};
  A::AcquireAfterCompletion();
  return {};
}

/// Waits until the word compares to `value`.
///
/// @errors  kTimeout, kAborted
template <arch::Arch A>
WARPVERBS_DEVICE Status WaitSignal(const uint64_t* word, Compare compare, uint64_t value,
                                   const WaitLimit& limit) {
  for (Waiter<A> waiter(limit);;) {
    const Status status = TestSignal<A>(word, compare, value);
    if (status.code != Code::kPending) return status;
    if (const Code code = waiter.Next(); code != Code::kPending) return {.code = code};
  }
}

}  // namespace warpverbs::inline v0_2::device
