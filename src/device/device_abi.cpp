// The functions of warpverbs/device_abi.h, for the processor whose arch the command line includes:
//
//     -include warpverbs/arch/cuda.hpp -DWARPVERBS_ABI_GPU=Cuda -DWARPVERBS_ABI_SYSTEM=CudaSystem
#include "warpverbs/device_abi.h"

#include <cstddef>

#include "requests.hpp"
#include "warpverbs/device/peers.hpp"
#include "warpverbs/device/receive_queue.hpp"
#include "warpverbs/mlx5/wqe.hpp"
#include "warpverbs/version.hpp"

// Code that several functions share: there would be a copy of it in each of a thousand. In bitcode that is
// removed again (bitcode.sed), since there the user's compiler decides. The slow paths stay functions.
#define WARPVERBS_ABI_CODE __attribute__((noinline)) WARPVERBS_ABI_DEVICE
#define WARPVERBS_ABI_SLOW_CODE __attribute__((noinline, cold)) WARPVERBS_ABI_DEVICE

// What a call does that cannot end as it should: only on a processor, see cpu_calls.hpp.
#ifndef WARPVERBS_ABI_TRY
#define WARPVERBS_ABI_TRY(call) call
#endif

namespace warpverbs::inline v0_2::device {
namespace {

static_assert(sizeof(PosterState) <= sizeof(wv_poster) && sizeof(wv_poster) == WV_POSTER_BYTES);
static_assert(sizeof(wv_batch) == WV_BATCH_BYTES && sizeof(wv_received) == WV_RECEIVED_BYTES);
static_assert(sizeof(QueueView) == WV_QUEUE_VIEW_BYTES && sizeof(PeersView) == WV_PEERS_VIEW_BYTES);
static_assert(sizeof(wv_list_entry) == sizeof(ListEntry) && sizeof(ListEntry) == WV_LIST_ENTRY_BYTES);
static_assert(offsetof(wv_list_entry, rkey) == offsetof(ListEntry, rkey));
static_assert(sizeof(wv_memory) == sizeof(LocalMemory) && sizeof(LocalMemory) == WV_MEMORY_BYTES);
static_assert(offsetof(wv_memory, lkey) == offsetof(LocalMemory, lkey));
static_assert(sizeof(ReceiveQueueView) == WV_RECEIVE_QUEUE_VIEW_BYTES);

constexpr bool Is(Code code, int value) { return static_cast<int>(code) == value; }
static_assert(Is(Code::kOk, WV_OK) && Is(Code::kPending, WV_PENDING) && Is(Code::kFull, WV_FULL) &&
              Is(Code::kTimeout, WV_TIMEOUT) && Is(Code::kAborted, WV_ABORTED) &&
              Is(Code::kInvalid, WV_INVALID) && Is(Code::kError, WV_ERROR));
constexpr bool Is(RequestError error, int value) { return static_cast<int>(error) == value; }
static_assert(Is(RequestError::kTooManySlots, WV_TOO_MANY_SLOTS) &&
              Is(RequestError::kMessageTooLong, WV_MESSAGE_TOO_LONG) &&
              Is(RequestError::kRefusedTicket, WV_REFUSED_TICKET) &&
              Is(RequestError::kReleaseScope, WV_RELEASE_SCOPE) && Is(RequestError::kSharing, WV_SHARING));
constexpr bool Is(Compare compare, int value) { return static_cast<int>(compare) == value; }
static_assert(Is(Compare::kEqual, WV_EQUAL) && Is(Compare::kNotEqual, WV_NOT_EQUAL) &&
              Is(Compare::kGreaterOrEqual, WV_GREATER_OR_EQUAL));
constexpr bool Is(PeerState state, int value) { return static_cast<int>(state) == value; }
static_assert(Is(PeerState::kDisconnected, WV_PEER_DISCONNECTED) &&
              Is(PeerState::kConnected, WV_PEER_CONNECTED) && Is(PeerState::kFailed, WV_PEER_FAILED));
static_assert(uint32_t{mlx5::kCqeAlways} == WV_CQE_ALWAYS && uint32_t{mlx5::kCqeOnError} == WV_CQE_ON_ERROR &&
              uint32_t{mlx5::kSolicited} == WV_SOLICITED && uint32_t{mlx5::kFence} == WV_FENCE);

// The words of the names.
namespace scope {
using gpu = arch::WARPVERBS_ABI_GPU;
using system = arch::WARPVERBS_ABI_SYSTEM;
}  // namespace scope
namespace sharing {
using exclusive = Exclusive;
using shared = Shared;
using relaxed = RelaxedShared;
}  // namespace sharing

using System = scope::system;

template <class T>
WARPVERBS_DEVICE T* At(uint64_t address) {
  return reinterpret_cast<T*>(address);
}

WARPVERBS_DEVICE WaitLimit Until(uint64_t deadline_ns, uint64_t abort_word) {
  return {deadline_ns, At<const uint64_t>(abort_word)};
}

// A result: code, syndrome or reason, vendor syndrome, opcode, then 32 bits.
WARPVERBS_DEVICE uint64_t Result(const Status& status, uint32_t upper) {
  const uint32_t reason =
      status.code == Code::kInvalid ? static_cast<uint32_t>(status.request_error) : uint32_t{status.syndrome};
  const uint32_t lower = static_cast<uint32_t>(status.code) | reason << 8 |
                         uint32_t{status.vendor_syndrome} << 16 | uint32_t{status.opcode} << 24;
  return uint64_t{upper} << 32 | lower;
}
WARPVERBS_DEVICE uint64_t Result(const Status& status) { return Result(status, status.wqe_index); }
WARPVERBS_DEVICE uint64_t Result(const Posted& posted) { return Result(posted.status, posted.ticket.index); }
WARPVERBS_DEVICE uint32_t CodeOf(uint64_t result) { return static_cast<uint32_t>(result & 0xff); }

/// The threads of a call: who executes it, and how all get its result.
namespace group {

struct thread {
  using Executing = thread;
  using Cooperating = Thread;
  template <class S>
  static WARPVERBS_DEVICE Thread Threads() {
    return {};
  }
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t Call(const F& call) {
    return call();
  }
  /// Calls with the threads that divide the work of a list.
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t CallTogether(const F& call) {
    return call(Thread{});
  }
};

struct lanes : thread {
  using Executing = lanes;
  using Cooperating = Warp;
  /// On an exclusive queue always the same lanes: each keeps the end of the queue, which a call without it
  /// moves.
  template <class S>
  static WARPVERBS_DEVICE Warp Threads() {
    return Warp(std::is_same_v<S, Exclusive> ? System::WarpLanes() : System::ActiveLanes());
  }
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t Call(const F& call) {
    return WARPVERBS_ABI_TRY(call());
  }
};

struct warp : thread {
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t Call(const F& call) {
    return WARPVERBS_ABI_TRY(CallOnFirstLane<A>(call));
  }
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t CallTogether(const F& call) {
    return WARPVERBS_ABI_TRY(CallOnAllLanes<A>(call));
  }

 private:
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t CallOnFirstLane(const F& call) {
    const arch::LaneMask all = A::WarpLanes();
    A::SyncLanes(all);
    uint64_t result = 0;
    if (A::Lane() == 0) result = call();
    A::SyncLanes(all);  // what lane 0 has seen, all see
    return A::Shuffle(all, result, 0);
  }
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t CallOnAllLanes(const F& call) {
    const arch::LaneMask all = A::WarpLanes();
    A::SyncLanes(all);
    const uint64_t result = call(Warp(all));
    A::SyncLanes(all);  // what one lane keeps, all see
    return result;
  }
};

struct block : thread {
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t Call(const F& call) {
    A::SyncBlock();
    const bool executes = A::BlockRank() == 0;
    uint64_t result = 0;
    if (executes) result = call();
    return WARPVERBS_ABI_TRY(A::ShareInBlock(result, executes));
  }
  template <class A, class F>
  static WARPVERBS_DEVICE uint64_t CallTogether(const F& call) {
    A::SyncBlock();
    uint64_t result = 0;
    if (A::BlockRank() == A::Lane()) result = WARPVERBS_ABI_TRY(call(Warp(A::WarpLanes())));
    return WARPVERBS_ABI_TRY(A::ShareInBlock(result, A::BlockRank() == 0));
  }
};

}  // namespace group

template <class A, class S, class G>
WARPVERBS_DEVICE SendQueue<A, S, typename G::Cooperating> Open(const QueueView& view,
                                                               const PosterState& known) {
  return SendQueue<A, S, typename G::Cooperating>(view, G::template Threads<S>(), known);
}

WARPVERBS_DEVICE const QueueView& ViewAt(uint64_t queue) { return *At<const QueueView>(queue); }
WARPVERBS_DEVICE PosterState Known(uint64_t poster) {
  return poster != 0 ? *At<const PosterState>(poster) : PosterState{};
}
WARPVERBS_DEVICE void Keep(uint64_t poster, const PosterState& known) {
  if (poster != 0) *At<PosterState>(poster) = known;
}

/// Posts an operation of any kind, with all that may delay it.
template <class A, class S, class G>
WARPVERBS_ABI_SLOW_CODE uint64_t PostSlow(const QueueView& view, PosterState& known,
                                          const AnyOperation<System>& operation, const WaitLimit& limit,
                                          uint32_t flags) {
  auto opened = Open<A, S, G>(view, known);
  const Posted posted = opened.Post(operation, limit, flags);
  known = opened.Poster();
  return Result(posted);
}

/// Posts an operation by its own code if the poster knows of a free slot. One that knows nothing has no
/// credit.
///
/// The slow path gets copies: what a function call may see does not stay in registers.
template <class A, class S, class G, class O>
WARPVERBS_ABI_CODE uint64_t Post(uint64_t queue, uint64_t poster, Kind kind, const O& operation,
                                 const WaitLimit& limit, uint32_t flags) {
  const PosterState known = Known(poster);
  PosterState as_known = known;
  as_known.known = 1;  // so that nothing is loaded
  auto opened = Open<A, S, G>(ViewAt(queue), as_known);
  Posted posted;
  if (opened.TryPost(operation, posted, limit.abort, flags)) {
    Keep(poster, opened.Poster());
    return Result(posted);
  }
  const QueueView view = ViewAt(queue);
  const O copy = operation;
  const WaitLimit until = limit;
  PosterState kept = known;
  const uint64_t result = PostSlow<A, S, G>(view, kept, {kind, &copy}, until, flags);
  Keep(poster, kept);
  return result;
}

/// Posts a list by threads that divide the work. The last of them knows most of the queue afterwards.
template <class A, class S, class C>
WARPVERBS_ABI_CODE uint64_t PostList(const C& together, uint64_t queue, uint64_t poster,
                                     const ListEntry* entries, uint32_t count, uint32_t flags,
                                     const WaitLimit& limit) {
  SendQueue<A, S, C> opened(ViewAt(queue), together, Known(poster));
  const Posted posted = opened.PostList(entries, count, limit, flags);
  if (Group<A, C>(together).IsLeader()) Keep(poster, opened.Poster());
  return Result(posted);
}

/// A batch as wv_batch keeps it.
struct KeptBatch {
  BatchState state;
  arch::LaneMask lanes;  ///< lanes that began it together
};
static_assert(sizeof(KeptBatch) <= sizeof(wv_batch));

/// The threads that share a batch's slots. Lanes in lockstep cannot wait for each other, so those that call
/// together share.
template <class A, class S, class G>
inline constexpr bool kLanesShare = std::is_same_v<G, group::lanes> ||
                                    (A::kLockstep && !std::is_same_v<S, Exclusive>);

template <class A, class S, class G>
WARPVERBS_DEVICE auto OpenForBatch(uint64_t queue, uint64_t poster, arch::LaneMask lanes) {
  if constexpr (kLanesShare<A, S, G>) {
    return SendQueue<A, S, Warp>(ViewAt(queue), Warp(lanes), Known(poster));
  } else {
    return SendQueue<A, S, Thread>(ViewAt(queue), Thread{}, Known(poster));
  }
}

template <class A, class S, class G>
WARPVERBS_ABI_CODE uint64_t Begin(uint64_t queue, uint64_t poster, uint64_t batch, uint32_t slots,
                                  const WaitLimit& limit) {
  KeptBatch& kept = *At<KeptBatch>(batch);
  kept.lanes = group::lanes::Threads<S>().lanes;
  auto opened = OpenForBatch<A, S, G>(queue, poster, kept.lanes);
  auto begun = opened.Begin(slots, limit);
  const Status status = begun.status();
  kept.state = begun.Suspend();
  Keep(poster, opened.Poster());
  return Result(status, 0);
}

/// Adds by a queue that only writes: it takes its end from the batch.
template <class O>
WARPVERBS_ABI_CODE uint64_t Add(uint64_t queue, uint64_t batch, const O& operation, uint32_t flags) {
  BatchState& kept = At<KeptBatch>(batch)->state;
  const PosterState writer{.reserved = kept.end, .known = 1};
  SendQueue<System, Exclusive> opened(ViewAt(queue), {}, writer);
  auto resumed = opened.Resume(kept);
  const Posted posted = resumed.Add(operation, flags);
  kept = resumed.Suspend();
  return Result(posted);
}

template <class A, class S, class G>
WARPVERBS_ABI_CODE uint64_t Submit(uint64_t queue, uint64_t poster, uint64_t batch) {
  KeptBatch& kept = *At<KeptBatch>(batch);
  auto opened = OpenForBatch<A, S, G>(queue, poster, kept.lanes);
  auto resumed = opened.Resume(kept.state);
  const Posted posted = resumed.Submit();
  kept.state = resumed.Suspend();
  Keep(poster, opened.Poster());
  return Result(posted);
}

/// Calls a wait of a queue, of which it needs neither scope nor sharing, as contended queues are refused.
/// What it learns is kept only for a poster whose posts have looked whether they may use the queue.
template <class F>
WARPVERBS_DEVICE uint64_t Wait(uint64_t queue, uint64_t poster, const F& wait) {
  const PosterState known = Known(poster);
  SendQueue<System, Shared> opened(ViewAt(queue), {}, known);
  const Status status = wait(opened);
  if (known.known != 0) Keep(poster, opened.Poster());
  return Result(status);
}
template <class F>
WARPVERBS_DEVICE uint64_t WaitForPost(uint64_t queue, uint64_t poster, uint64_t posted, const F& wait) {
  if (CodeOf(posted) != WV_OK) return posted;
  const Ticket ticket{static_cast<uint32_t>(posted >> 32)};
  return Wait(queue, poster, [&](auto& opened) { return wait(opened, ticket); });
}

// The bodies of the functions, of the arguments that device_abi.h names.

#define WARPVERBS_ABI_BODY_begin Begin<A, S, G>(queue, poster, batch, slots, Until(deadline_ns, abort_word))
#define WARPVERBS_ABI_BODY_submit Submit<A, S, G>(queue, poster, batch)
#define WARPVERBS_ABI_BODY_test \
  WaitForPost(queue, poster, posted, [&](auto& opened, Ticket ticket) { return opened.Test(ticket); })
#define WARPVERBS_ABI_BODY_wait                                         \
  WaitForPost(queue, poster, posted, [&](auto& opened, Ticket ticket) { \
    return opened.Wait(ticket, Until(deadline_ns, abort_word));         \
  })
#define WARPVERBS_ABI_BODY_flush \
  Wait(queue, poster, [&](auto& opened) { return opened.Flush(Until(deadline_ns, abort_word)); })
#define WARPVERBS_ABI_BODY_signal_test \
  Result(TestSignal<A>(At<const uint64_t>(signal), static_cast<Compare>(compare), value))
#define WARPVERBS_ABI_BODY_signal_wait                                                   \
  Result(WaitSignal<A>(At<const uint64_t>(signal), static_cast<Compare>(compare), value, \
                       Until(deadline_ns, abort_word)))
#define WARPVERBS_ABI_BODY_receive_post                                                                      \
  PostReceive<A>(*At<const ReceiveQueueView>(receives), Own(local, bytes, lkey), Own(local2, bytes2, lkey2), \
                 submit)
#define WARPVERBS_ABI_BODY_receive_submit SubmitReceives<A>(*At<const ReceiveQueueView>(receives))
#define WARPVERBS_ABI_BODY_receive_poll                                         \
  PollReceive(*At<const ReceiveQueueView>(receives), At<wv_received>(received), \
              Until(deadline_ns, abort_word))
#define WARPVERBS_ABI_BODY_now_ns System::NowNs()
#define WARPVERBS_ABI_BODY_fetched_u32 Fetched<System>(*At<const uint32_t>(fetched))
#define WARPVERBS_ABI_BODY_fetched_u64 Fetched<System>(*At<const uint64_t>(fetched))
#define WARPVERBS_ABI_BODY_queue_error FirstError(ViewAt(queue))
#define WARPVERBS_ABI_BODY_peer_state \
  static_cast<uint32_t>(Peers<System>(*At<const PeersView>(peers)).State(rank))
#define WARPVERBS_ABI_BODY_code CodeOf(result)
#define WARPVERBS_ABI_BODY_ticket static_cast<uint32_t>(posted >> 32)
#define WARPVERBS_ABI_BODY_request_error Field(result, WV_INVALID, 8)
#define WARPVERBS_ABI_BODY_syndrome Field(result, WV_ERROR, 8)
#define WARPVERBS_ABI_BODY_vendor_syndrome Field(result, WV_ERROR, 16)
#define WARPVERBS_ABI_BODY_opcode Field(result, WV_ERROR, 24)
#define WARPVERBS_ABI_BODY_wqe_index static_cast<uint32_t>(result >> 32 & 0xffff)

template <class A>
WARPVERBS_DEVICE uint64_t PostReceive(const ReceiveQueueView& view, const LocalMemory& local,
                                      const LocalMemory& second, uint32_t submit) {
  const uint64_t state = A::Load(view.state);
  ReceiveQueue<A> receives(view);
  const Status status = receives.Post(local, second);
  if (submit != 0) {
    receives.Submit();
  } else if (status.ok()) {
    A::Store(view.state, state + (uint64_t{1} << 32));  // one more is posted
  }
  return Result(status);
}

template <class A>
WARPVERBS_DEVICE uint64_t SubmitReceives(const ReceiveQueueView& view) {
  ReceiveQueue<A>(view).Submit();
  return WV_OK;
}

WARPVERBS_DEVICE uint64_t PollReceive(const ReceiveQueueView& view, wv_received* result,
                                      const WaitLimit& limit) {
  ReceiveQueue<System> receives(view);
  const Received received = limit.deadline_ns == 0 ? receives.PollOnce() : receives.Poll(limit);
  if (received.status.ok() && result != nullptr) {
    const uint32_t imm = received.has_imm ? WV_RECEIVED_IMM : 0,
                   write = received.is_write ? WV_RECEIVED_WRITE : 0;
    *result = {received.index, received.bytes, received.imm.raw, imm | write};
  }
  return Result(received.status, received.index);
}

WARPVERBS_DEVICE uint64_t FirstError(const QueueView& view) {
  const uint64_t word = System::Load(&view.control->error);
  return word == 0 ? uint64_t{WV_OK} : Result(ErrorStatus(word));
}

/// Returns a byte of a result if its code is `code`.
WARPVERBS_DEVICE uint32_t Field(uint64_t result, uint32_t code, uint32_t shift) {
  return CodeOf(result) == code ? static_cast<uint32_t>(result >> shift & 0xff) : 0;
}

}  // namespace

// The functions.

#define WARPVERBS_DEFINE(result, name, ...) \
  extern "C" WARPVERBS_ABI_DEVICE WARPVERBS_EXPORT result name(__VA_ARGS__)
#define WARPVERBS_CALL_BY(group_, call) return group::group_::Call<A>([&]() { return call; })

#define WARPVERBS_POST(name, ...)                                              \
  WARPVERBS_EACH_QUEUE(WARPVERBS_DEFINE_POST, name __VA_OPT__(, ) __VA_ARGS__) \
  WARPVERBS_EACH_GROUP(WARPVERBS_DEFINE_ADD, name __VA_OPT__(, ) __VA_ARGS__)
#define WARPVERBS_DEFINE_POST(group_, sharing_, scope_, name, ...)                                          \
  WARPVERBS_DEFINE(uint64_t, wv_##name##_##group_##_##sharing_##_##scope_, uint64_t queue, uint64_t poster, \
                   __VA_ARGS__ __VA_OPT__(, ) uint32_t flags, uint64_t deadline_ns, uint64_t abort_word) {  \
    using A = scope::scope_;                                                                                \
    using G = group::group_::Executing;                                                                     \
    const auto operation = WARPVERBS_OPERATION_##name;                                                      \
    WARPVERBS_CALL_BY(group_, (Post<A, sharing::sharing_, G>(queue, poster, Kind::name, operation,          \
                                                             Until(deadline_ns, abort_word), flags)));      \
  }
#define WARPVERBS_DEFINE_ADD(group_, name, ...)                                        \
  WARPVERBS_DEFINE(uint64_t, wv_add_##name##_##group_, uint64_t queue, uint64_t batch, \
                   __VA_ARGS__ __VA_OPT__(, ) uint32_t flags) {                        \
    using A = System;                                                                  \
    const auto operation = WARPVERBS_OPERATION_##name;                                 \
    WARPVERBS_CALL_BY(group_, (Add(queue, batch, operation, flags)));                  \
  }
#define WARPVERBS_QUEUE_CALL(name, ...) WARPVERBS_EACH_QUEUE(WARPVERBS_DEFINE_QUEUE_CALL, name, __VA_ARGS__)
#define WARPVERBS_DEFINE_QUEUE_CALL(group_, sharing_, scope_, name, ...)                  \
  WARPVERBS_DEFINE(uint64_t, wv_##name##_##group_##_##sharing_##_##scope_, __VA_ARGS__) { \
    using A = scope::scope_;                                                              \
    using S = sharing::sharing_;                                                          \
    using G = group::group_::Executing;                                                   \
    WARPVERBS_CALL_BY(group_, (WARPVERBS_ABI_BODY_##name));                               \
  }
#define WARPVERBS_LIST_CALL(name, ...) \
  WARPVERBS_EACH_LIST_QUEUE(WARPVERBS_DEFINE_LIST_CALL, name, __VA_ARGS__)
#define WARPVERBS_DEFINE_LIST_CALL(group_, sharing_, scope_, name, ...)                                   \
  WARPVERBS_DEFINE(uint64_t, wv_##name##_##group_##_##sharing_##_##scope_, __VA_ARGS__) {                 \
    using A = scope::scope_;                                                                              \
    return group::group_::CallTogether<A>([&](const auto& together) {                                     \
      return PostList<A, sharing::sharing_>(together, queue, poster, At<const ListEntry>(entries), count, \
                                            flags, Until(deadline_ns, abort_word));                       \
    });                                                                                                   \
  }
#define WARPVERBS_SCOPE_CALL(name, ...) WARPVERBS_EACH_SCOPE(WARPVERBS_DEFINE_SCOPE_CALL, name, __VA_ARGS__)
#define WARPVERBS_DEFINE_SCOPE_CALL(group_, scope_, name, ...)               \
  WARPVERBS_DEFINE(uint64_t, wv_##name##_##group_##_##scope_, __VA_ARGS__) { \
    using A = scope::scope_;                                                 \
    WARPVERBS_CALL_BY(group_, (WARPVERBS_ABI_BODY_##name));                  \
  }
#define WARPVERBS_GROUP_CALL(name, ...) WARPVERBS_EACH_GROUP(WARPVERBS_DEFINE_GROUP_CALL, name, __VA_ARGS__)
#define WARPVERBS_DEFINE_GROUP_CALL(group_, name, ...)            \
  WARPVERBS_DEFINE(uint64_t, wv_##name##_##group_, __VA_ARGS__) { \
    using A = System;                                             \
    WARPVERBS_CALL_BY(group_, (WARPVERBS_ABI_BODY_##name));       \
  }
#define WARPVERBS_VALUE(result_, name, ...) \
  WARPVERBS_DEFINE(result_, wv_##name, __VA_ARGS__) { return WARPVERBS_ABI_BODY_##name; }
#define WARPVERBS_ABI_LIST
#include "warpverbs/device_abi.h"

}  // namespace warpverbs::inline v0_2::device
