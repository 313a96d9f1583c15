#pragma once

#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/detail/waiter.hpp"

/// Signals: a word of 8 bytes in the peer's memory that changes after the data is in place. One side signals,
/// the other waits.
///
/// The address of a word is a multiple of 8. Neither the word nor the data may be in a region with relaxed
/// ordering; a checked build refuses that.
namespace warpverbs::inline v0_2::device {

/// A write of a signal word: it may not pass the data.
struct SignalWrite : WriteInline<uint64_t> {
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    return check.Find(
        {.remote = remote, .remote_bytes = sizeof value, .remote_rights = kWritable, .in_order = true});
  }
};

/// Data and their signal: neither may pass the other.
template <class Signal>
struct SignalledWrite : Sequence<Message<WqeOpcode::kRdmaWrite>, Signal> {
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    const RequestError error = this->first.Check(check, true);
    return error != RequestError::kNone ? error : this->second.Check(check);
  }
};

/// Adds to the word, which is a counter. Any number of peers may add.
WARPVERBS_DEVICE FetchAddOf<uint64_t> SignalAdd(const RemoteMemory& word, uint64_t addend = 1) {
  return FetchAdd(word, addend);
}

/// Replaces the word, which is a flag. Its bytes are copied, so both sides must have the same byte order.
WARPVERBS_DEVICE SignalWrite SignalSet(const RemoteMemory& word, uint64_t value) { return {{word, value}}; }

/// Writes data, then signals: a thread that sees the signal sees the data.
///
/// @source  IBTA 1.4, 9.7.3.3.3 and 9.5: a responder carries out a connection's requests in order
template <class Signal>
WARPVERBS_DEVICE SignalledWrite<Signal> PutSignal(const RemoteMemory& remote, const LocalMemory& local,
                                                  const Signal& signal) {
  return {{Write(remote, local), signal}};
}

/// Increments a word once a completion queue has received `count` completions; no thread polls. For a queue
/// that is connected to its own side the word is a counter in local memory.
WARPVERBS_DEVICE Sequence<WaitCq, FetchAddOf<uint64_t>> CountCompletions(const WaitCq& completions,
                                                                         const RemoteMemory& word) {
  return {completions, SignalAdd(word)};
}

/// The comparison that ends a wait; kGreaterOrEqual is unsigned.
enum class Compare : uint8_t { kEqual, kNotEqual, kGreaterOrEqual };

/// Tests a word of this side that the peer changes: kOk or kPending.
///
/// After kOk, later loads see everything that the peer wrote before it signalled.
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
  return WaitForStatus<A>(limit, [&] { return TestSignal<A>(word, compare, value); });
}

}  // namespace warpverbs::inline v0_2::device
