#pragma once

#include "warpverbs/device/detail/poster.hpp"

namespace warpverbs::inline v0_2::device {

/// A send queue as a kernel wants it: post an operation, get a ticket, wait for the ticket.
///
/// Each thread makes its own SendQueue from the view that the host passes; it lives in registers. Errors
/// last: once the queue pair has failed, every wait says so until the host resets it, and every post of a
/// poster that knows; one that has not looked yet may still post, and its ticket then says so. Once a sharer
/// has given up between reserving slots and ringing for them, everybody is told so (kError with syndrome 0).
///
/// @tparam Sharing      Exclusive, Shared or RelaxedShared: who may post to this queue while this object
///                      lives
/// @tparam Cooperation  Thread, Warp or Block: who makes each posting call together; see cooperation.hpp
template <arch::Arch A, class Sharing, class Cooperation = Thread>
class SendQueue {
  static_assert(!(std::is_same_v<Sharing, Exclusive> && std::is_same_v<Cooperation, Block>),
                "the warps of a block share the queue: take Shared");

 public:
  class Batch;

  WARPVERBS_DEVICE explicit SendQueue(const QueueView& view, const Cooperation& cooperation = {})
      : poster_(view, cooperation) {}
  SendQueue(const SendQueue&) = delete;  // two of an exclusive queue would post over each other
  SendQueue& operator=(const SendQueue&) = delete;
  SendQueue(SendQueue&&) = default;

  /// Posts an operation: see operations.hpp, atomics.hpp, signal.hpp.
  ///
  /// With its slots, a post on a shared queue waits for the doorbells before its own, whatever its limit
  /// says. They are rung within microseconds; after 10 s, or if the abort word is set then, it ends the
  /// queue.
  ///
  /// @param limit  how long to wait for free slots. By default not at all: kFull instead
  /// @param flags  mlx5::CtrlFlags. Without kCqeAlways it completes with the next one that has it; one in any
  ///               `depth` slots in a row must have it, whoever posts them, and the last one before a Flush()
  /// @pre     the data are visible to the caller, and stay unchanged until the ticket is done
  /// @errors  kFull, kTimeout, kAborted, kInvalid: nothing was posted. kError: see the class
  template <class Operation>
  WARPVERBS_DEVICE Posted Post(const Operation& operation, const WaitLimit& limit = {},
                               uint32_t flags = mlx5::kCqeAlways) {
    return poster_.Post(operation, limit, flags);
  }

  /// Reserves slots for a batch: operations that are published together.
  ///
  /// @param slots  for each caller, the same for all who call together
  /// @errors  as Post, in Batch::status()
  [[nodiscard]] WARPVERBS_DEVICE Batch Begin(uint32_t slots, const WaitLimit& limit = {}) {
    static_assert(!Poster<A, Sharing, Cooperation>::kLanesCollide,
                  "the lanes of this processor's warps cannot wait for each other: take Warp");
    poster_.team().Gather();
    return Batch(*this, slots, limit);
  }

  /// Says whether a post is done: kOk, kPending, or kError.
  ///
  /// A post that was done before the queue pair failed is kOk as long as that can be told: a collapsed CQ
  /// keeps the newest completion only, so where a flush is all that anyone saw, the cause and what was done
  /// before it are lost. A ring keeps both. With syndrome 0 the NIC may still execute it, until Reset().
  WARPVERBS_DEVICE Status Test(Ticket ticket) {
    const Code code = producer().Wait(ticket, {});
    return producer().Explain(code == Code::kTimeout ? Code::kPending : code);
  }

  /// Waits until a post is done.
  ///
  /// @errors  as Test; kTimeout, kAborted: it may still complete
  WARPVERBS_DEVICE Status Wait(Ticket ticket, const WaitLimit& limit) {
    return producer().Explain(producer().Wait(ticket, limit));
  }

  /// Waits until all is done that was posted to the queue before the call, by whomever.
  ///
  /// @errors  as Wait
  WARPVERBS_DEVICE Status Flush(const WaitLimit& limit) {
    producer().tail().Look();
    return Wait({producer().tail().turn() - 1}, limit);
  }

  /// Leaves the end of the queue where the next kernel finds it. An exclusive poster must call it last of
  /// all.
  WARPVERBS_DEVICE void Save() const {
    if (poster_.team().Leads()) producer().tail().Save();
  }

 private:
  WARPVERBS_DEVICE Producer<A, Sharing>& producer() { return poster_.producer(); }
  WARPVERBS_DEVICE const Producer<A, Sharing>& producer() const { return poster_.producer(); }

  Poster<A, Sharing, Cooperation> poster_;
};

/// Slots of a send queue that were reserved together and are published together.
///
/// Until Submit(), this thread posts nothing else to the queue and waits for nothing that another poster
/// does: no WQE behind these is rung for, and maybe none before them. A block's batch sends what the block
/// has written before Submit().
template <arch::Arch A, class Sharing, class Cooperation>
class SendQueue<A, Sharing, Cooperation>::Batch {
 public:
  /// kOk, or why nothing was reserved or published: then Add() and Submit() say so too.
  WARPVERBS_DEVICE const Status& status() const { return status_; }

  /// Writes an operation, without publishing it.
  ///
  /// @errors  kInvalid: nothing was added; kTooManySlots if too few are left
  template <class Operation>
  WARPVERBS_DEVICE Posted Add(const Operation& operation, uint32_t flags = mlx5::kCqeAlways) {
    const uint32_t slots = operation.Slots(poster_.view());
    RequestError mistake = poster_.Refusal(operation, slots);
    if (__builtin_expect((slots == 1) & (mistake == RequestError::kNone) & (next_ != end_),
                         true)) {  // as PostBy()
      doorbell_ = EncodeOne<A>(operation, poster_.view(), next_, flags);
    } else {
      if (!status_.ok()) return {status_, {}};
      if (mistake == RequestError::kNone && slots > end_ - next_) mistake = RequestError::kTooManySlots;
      if (mistake != RequestError::kNone) return poster_.Invalid(mistake);
      doorbell_ = operation.template Encode<A>(poster_.view(), next_, flags);
    }
    next_ += slots;
    return {{}, {next_ - 1}};
  }

  /// Publishes what was added; what was not used is filled with NOPs. A second call does nothing more.
  ///
  /// @return  the ticket of this caller's last operation, which is done after all before it
  WARPVERBS_DEVICE Posted Submit() {
    if (!submitted_ && status_.ok()) {
      while (next_ != end_) Add(Nop());
      status_ = poster_.producer().Explain(poster_.Publish(poster_.team(), base_, slots_, doorbell_, abort_));
      submitted_ = true;
    }
    return {status_, {end_ - 1}};
  }

  /// A batch that was left posts NOPs in place of its operations: others may be waiting behind it.
  WARPVERBS_DEVICE ~Batch() noexcept(false) {
    if (!submitted_) next_ = end_ - slots_;
    Submit();
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend class SendQueue;

  WARPVERBS_DEVICE Batch(SendQueue& queue, uint32_t slots, const WaitLimit& limit)
      : poster_(queue.poster_), slots_(slots), abort_(limit.abort) {
    const bool fits = slots != 0 && uint64_t{slots} * poster_.team().size() <= poster_.view().depth;
    if (!fits) {
      status_ = poster_.Invalid(RequestError::kTooManySlots).status;
    } else if (!poster_.ReserveAtOnce(poster_.team(), true, slots, base_)) {
      status_ = poster_.producer().Explain(poster_.Reserve(poster_.team(), slots, limit, base_));
    }
    next_ = base_ + slots * poster_.team().rank();
    end_ = next_ + (status_.ok() ? slots : 0);
  }

  Poster<A, Sharing, Cooperation>& poster_;
  uint32_t slots_;         ///< of each caller
  const uint64_t* abort_;  ///< as for Begin()
  Status status_;
  uint32_t base_ = 0;  ///< of all callers
  uint32_t next_, end_;
  mlx5::Be64 doorbell_ = {0};
  bool submitted_ = false;
};

}  // namespace warpverbs::inline v0_2::device
