#pragma once

#include "perf/device/work.hpp"
#include "warpverbs/device/atomics.hpp"
#include "warpverbs/device/operations.hpp"

/// Maps messages to operations. Message k of a launch uses slot k modulo the slots of its flow.
namespace warpverbs::perf {

/// The slot of a message. Next() avoids a division per message.
class Place {
 public:
  WARPVERBS_DEVICE Place(const Flow& flow, uint64_t message)
      : flow_(flow), slot_(static_cast<uint32_t>(message % flow.slots)), lap_(message / flow.slots) {}

  WARPVERBS_DEVICE void Next() {
    if (++slot_ != flow_.slots) return;
    slot_ = 0;
    ++lap_;
  }
  WARPVERBS_DEVICE uint64_t lap() const { return lap_; }
  WARPVERBS_DEVICE device::LocalMemory local() const {
    return {flow_.local.addr + slot_ * flow_.stride, flow_.local.bytes, flow_.local.lkey};
  }
  WARPVERBS_DEVICE device::RemoteMemory remote() const {
    return {flow_.remote.addr + slot_ * flow_.stride, flow_.remote.rkey};
  }

 private:
  const Flow& flow_;
  uint32_t slot_;
  uint64_t lap_;
};

struct WriteVerb {
  WARPVERBS_DEVICE static auto Operation(const Place& place) {
    return device::Write(place.remote(), place.local());
  }
};
struct ReadVerb {
  WARPVERBS_DEVICE static auto Operation(const Place& place) {
    return device::Read(place.remote(), place.local());
  }
};
struct SendVerb {
  WARPVERBS_DEVICE static auto Operation(const Place& place) { return device::Send(place.local()); }
};
/// Adds one to the word in the slot, which thus counts the messages.
struct FetchAddVerb {
  WARPVERBS_DEVICE static auto Operation(const Place& place) {
    return device::FetchAdd(place.remote(), uint64_t{1}, place.local());
  }
};
/// Counts by compare-swap: each message expects the value that the one before it stored, from 0 on.
struct CompareSwapVerb {
  WARPVERBS_DEVICE static auto Operation(const Place& place) {
    const device::CompareSwapOperands<uint64_t> words{.compare = place.lap(), .swap = place.lap() + 1};
    return device::CompareSwap(place.remote(), words, place.local());
  }
};

/// Calls `use(verb)` with the type for a verb.
template <class Use>
void WithVerb(Verb verb, const Use& use) {
  switch (verb) {
    case Verb::kWrite:
      return use(WriteVerb{});
    case Verb::kRead:
      return use(ReadVerb{});
    case Verb::kSend:
      return use(SendVerb{});
    case Verb::kFetchAdd:
      return use(FetchAddVerb{});
    case Verb::kCompareSwap:
      return use(CompareSwapVerb{});
  }
}

}  // namespace warpverbs::perf
