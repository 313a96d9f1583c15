#pragma once

#include "warpverbs/device/send_queue.hpp"
#include "warpverbs/device/signal.hpp"

/// Rails: up to 8 queue pairs, on as many NICs, that lead to one peer. host/rail_set.hpp makes them.
namespace warpverbs::inline v0_2::device {

inline constexpr uint32_t kMaxRails = 8;

/// Adds up to the same sum for 1 to 8 parts, whichever rails they take: a multiple of all these numbers.
inline constexpr uint64_t kRailSignal = 840;

/// Memory of this side, with a key for each rail.
struct RailLocalMemory {
  uint64_t addr;
  uint64_t bytes;
  mlx5::Be32 lkeys[kMaxRails];

  WARPVERBS_DEVICE LocalMemory On(uint32_t rail) const { return {addr, bytes, lkeys[rail]}; }
};

/// Memory of the peer, with a key for each rail.
struct RailRemoteMemory {
  uint64_t addr;
  mlx5::Be32 rkeys[kMaxRails];

  WARPVERBS_DEVICE RemoteMemory On(uint32_t rail) const { return {addr, rkeys[rail]}; }
};

/// The rails to a peer, as a kernel gets them. A rail has failed once its queue has.
struct RailsView {
  QueueView queues[kMaxRails];
  uint32_t count;      ///< 1 to kMaxRails
  uint64_t cut_bytes;  ///< a write is cut into parts of at least so many bytes; at least 1
};

/// The post of an operation in parts: of each, the rail that carries it and its ticket there.
struct RailTicket {
  uint64_t part_bytes;  ///< size of each part but the last
  uint32_t parts;       ///< number of parts that were posted
  uint32_t rails[kMaxRails];
  Ticket tickets[kMaxRails];
};

/// The result of a post over rails.
struct [[nodiscard]] RailPosted {
  Status status;
  RailTicket ticket;
};

/// Writes over all rails to a peer.
///
/// A small write takes the caller's rail: the writes of one caller keep their order until that rail fails. A
/// longer one is cut into equal parts, one on each rail, and has no order. Rails that are known to have
/// failed are left out; reads and atomics go through a SendQueue of Home()'s queue.
///
/// The lanes of a warp that call together bring a write each, and get a ticket each. Those whose parts take
/// the same rail share a reservation and a doorbell there, as in a SendQueue.
///
/// Errors name the rail in Status::rail. A post returns kError if no rail is left. After kFull, kTimeout and
/// kAborted some parts may have been posted: those of the ticket.
///
/// @tparam S  the posters of each rail's queue
/// @tparam C  Thread or Warp: the threads that make each call but Wait() together
/// @tparam V  what the host learns of the posters; see observation.hpp
template <arch::Arch A, Sharing S, Cooperation C = Thread, Observing V = Unobserved>
class Rails {
  static constexpr bool kAlone = std::is_same_v<C, Thread>;
  static_assert(!std::is_same_v<C, Block>, "the warps of a block post on their own: use Warp");

 public:
  /// @param view    must outlive this
  /// @param caller  number of the thread or warp, the same for all its lanes: callers spread over the rails
  WARPVERBS_DEVICE Rails(const RailsView& view, uint32_t caller) requires kAlone
      : Rails(view, caller, Thread{}) {}
  WARPVERBS_DEVICE Rails(const RailsView& view, uint32_t caller, const C& cooperation)
      : view_(view), caller_(caller), group_(cooperation) {}

  /// Returns a mask of the rails that are not known to have failed: a load for each.
  WARPVERBS_DEVICE uint32_t Working() const {
    uint32_t working = 0;
    for (uint32_t rail = 0; rail < view_.count; ++rail)
      working |= uint32_t{A::Load(&view_.queues[rail].control->error) == 0} << rail;
    return working;
  }

  /// Returns the caller's rail, or the next that works; kMaxRails: none does.
  WARPVERBS_DEVICE uint32_t Home() const { return NextWorking(caller_ % view_.count); }

  /// Writes local memory to the peer.
  WARPVERBS_DEVICE RailPosted Write(const RailRemoteMemory& remote, const RailLocalMemory& local,
                                    const WaitLimit& limit) {
    return PostParts(
        local.bytes, limit, [&](const Part& part, uint32_t) __attribute__((always_inline)) {
          return device::Write(part.RemoteOf(remote), part.LocalOf(local));
        });
  }

  /// Writes data, then adds kRailSignal to a counter of the peer, a share by each part: a thread that waits
  /// for kGreaterOrEqual kRailSignal * n sees the data of n such writes, whichever rails carried them.
  ///
  /// Adding is not idempotent, so WaitOrRepeat() is not for these.
  WARPVERBS_DEVICE RailPosted PutSignal(const RailRemoteMemory& remote, const RailLocalMemory& local,
                                        const RailRemoteMemory& signal, const WaitLimit& limit) {
    return PostParts(
        local.bytes, limit, [&](const Part& part, uint32_t parts) __attribute__((always_inline)) {
          return device::PutSignal(part.RemoteOf(remote), part.LocalOf(local),
                                   SignalAdd(signal.On(part.rail), kRailSignal / parts));
        });
  }

  /// Waits until all parts are done. Each lane waits for its own.
  ///
  /// @errors  the first error of a part, and its rail; the other parts are done, or the limit has passed
  WARPVERBS_DEVICE Status Wait(const RailTicket& ticket, const WaitLimit& limit) {
    Status status;
    for (uint32_t i = 0; i < ticket.parts; ++i) {
      const Status part = WaitFor(ticket.rails[i], ticket.tickets[i], limit);
      if (status.ok()) status = part;
    }
    return status;
  }

  /// Waits until all parts of a Write() are done, and writes those again that a failed rail lost, by the
  /// other rails. Writing twice does no harm as long as neither side uses the memory for anything else. The
  /// lanes of a warp do so one after the other.
  ///
  /// @errors  kError if no rail is left, and the last that failed; as for Wait(). What is done then is
  ///          unknown
  WARPVERBS_DEVICE Status WaitOrRepeat(const RailTicket& ticket, const RailRemoteMemory& remote,
                                       const RailLocalMemory& local, const WaitLimit& limit) {
    if constexpr (kAlone) {
      return WaitOrRepeatAlone(ticket, remote, local, limit);
    } else {
      Status status;
      for (arch::LaneMask rest = group_.lanes(); rest != 0;) {
        const uint32_t lane = Group<A, Warp>::Last(rest);
        if (A::Lane() == lane)
          status = Rails<A, S, Thread, V>(view_, caller_).WaitOrRepeatAlone(ticket, remote, local, limit);
        A::SyncLanes(group_.lanes());  // orders the lanes' stores of the end
        rest &= ~(arch::LaneMask{1} << lane);
      }
      return status;
    }
  }

 private:
  template <arch::Arch, Sharing, Cooperation, Observing>
  friend class Rails;

  /// A part of a write, on a rail.
  struct Part {
    uint64_t offset, bytes;
    uint32_t rail = 0;

    WARPVERBS_DEVICE RemoteMemory RemoteOf(const RailRemoteMemory& whole) const {
      return {whole.addr + offset, whole.rkeys[rail]};
    }
    WARPVERBS_DEVICE LocalMemory LocalOf(const RailLocalMemory& whole) const {
      return {whole.addr + offset, bytes, whole.lkeys[rail]};
    }
  };

  WARPVERBS_DEVICE static Part PartOf(uint32_t number, uint64_t part_bytes, uint64_t all_bytes) {
    const uint64_t offset = number * part_bytes, rest = all_bytes - offset;
    return {offset, rest < part_bytes ? rest : part_bytes};
  }

  WARPVERBS_DEVICE static uint32_t Lowest(uint32_t rails) {
    return 63 - static_cast<uint32_t>(__builtin_clzll(rails & (0 - rails)));
  }

  /// Returns the first rail, from one on and counted around, that is not known to have failed; kMaxRails:
  /// none. Mostly it loads one word.
  WARPVERBS_DEVICE uint32_t NextWorking(uint32_t rail) const {
    for (uint32_t tried = 0; tried < view_.count; ++tried) {
      if (A::Load(&view_.queues[rail].control->error) == 0) return rail;
      rail = rail + 1 < view_.count ? rail + 1 : 0;
    }
    return kMaxRails;
  }

  /// Returns the rail that is `nth` of the set bits, counted around: parts of a write differ in theirs.
  WARPVERBS_DEVICE static uint32_t Nth(uint32_t rails, uint32_t nth) {
    for (nth %= static_cast<uint32_t>(__builtin_popcountll(rails)); nth != 0; --nth) rails &= rails - 1;
    return Lowest(rails);
  }

  template <class Make>
  WARPVERBS_DEVICE RailPosted PostParts(uint64_t bytes, const WaitLimit& limit, const Make& make) {
    constexpr uint64_t kAlignment = 4096;  // so that no two rails write one line, nor one page
    const uint64_t cuts = bytes / view_.cut_bytes;
    const uint32_t rails = group_.AllTrue(cuts < 2) ? 0 : group_.Broadcast(Working());
    const auto working = cuts < 2 ? uint64_t{0} : static_cast<uint64_t>(__builtin_popcountll(rails));
    const uint64_t wanted = working < 2 ? 1 : cuts < working ? cuts : working;
    RailPosted posted{};
    posted.ticket.part_bytes =
        wanted == 1 ? bytes : (bytes + wanted * kAlignment - 1) / (wanted * kAlignment) * kAlignment;
    const uint64_t part_bytes = posted.ticket.part_bytes;
    const uint32_t parts = bytes == 0 ? 1 : static_cast<uint32_t>((bytes - 1) / part_bytes + 1);
    for (uint32_t i = 0;; ++i) {
      const bool posts = i < parts && posted.status.ok();
      if (group_.AllTrue(!posts)) return posted;
      uint32_t rail = parts > 1 ? Nth(rails, caller_ + i) : caller_ % view_.count;
      Ticket ticket{};
      const Status status = PostPart(
          posts, PartOf(i, part_bytes, bytes),
          limit, [&](const Part& part) __attribute__((always_inline)) { return make(part, parts); }, rail,
          ticket);
      if (!posts) continue;
      posted.status = status;
      if (!status.ok()) continue;
      posted.ticket.rails[i] = rail;
      posted.ticket.tickets[i] = ticket;
      posted.ticket.parts = i + 1;
    }
  }

  /// Posts the part of each caller that `posts` on the first rail, from `rail` on, that takes it. A rail that
  /// refuses it has failed.
  template <class Make>
  WARPVERBS_DEVICE Status PostPart(bool posts, Part part, const WaitLimit& limit, const Make& make,
                                   uint32_t& rail, Ticket& ticket) {
    Status status;
    while (!group_.AllTrue(!posts)) {
      const uint32_t next = posts ? NextWorking(rail) : kMaxRails;
      const C together = Together(posts, next);
      if constexpr (!kAlone) {
        A::SyncLanes(group_.lanes());  // the end of an exclusive queue, which another lane may have stored
        if ((together.lanes >> A::Lane() & 1) == 0) continue;
      }
      if (next == kMaxRails) {
        status = Named(ErrorStatus(A::Load(&view_.queues[rail].control->error)), rail);
        posts = false;
        continue;
      }
      rail = part.rail = next;
      const Posted posted = SendQueue<A, S, C, V>(view_.queues[next], together).Post(make(part), limit);
      ticket = posted.ticket;
      if (posted.status.code == Code::kError) continue;
      status = Named(posted.status, next);
      posts = false;
    }
    return status;
  }

  /// Returns the lanes that post on the rail of the last one that posts.
  WARPVERBS_DEVICE C Together(bool posts, uint32_t rail) const {
    if constexpr (kAlone) {
      return {};
    } else {
      const uint32_t last = Group<A, Warp>::Last(A::Ballot(group_.lanes(), posts));
      const uint32_t chosen = A::Shuffle(group_.lanes(), rail, last);
      return Warp(A::Ballot(group_.lanes(), posts && rail == chosen));
    }
  }

  WARPVERBS_DEVICE Status WaitOrRepeatAlone(const RailTicket& ticket, const RailRemoteMemory& remote,
                                            const RailLocalMemory& local,
                                            const WaitLimit& limit) requires kAlone {
    Status status;
    for (uint32_t i = 0; i < ticket.parts; ++i) {
      uint32_t rail = ticket.rails[i];
      Status done = WaitFor(rail, ticket.tickets[i], limit);
      while (done.code == Code::kError) {
        const Part part = PartOf(i, ticket.part_bytes, local.bytes);
        Ticket again{};
        const Status posted = PostPart(
            true, part, limit,
            [&](const Part& on) __attribute__((always_inline)) {
              return device::Write(on.RemoteOf(remote), on.LocalOf(local));
            },
            rail, again);
        if (!posted.ok()) {
          done = posted;
          break;
        }
        done = WaitFor(rail, again, limit);
      }
      if (status.ok()) status = done;
    }
    return status;
  }

  WARPVERBS_DEVICE Status WaitFor(uint32_t rail, Ticket ticket, const WaitLimit& limit) {
    return Named(SendQueue<A, S, Thread, V>(view_.queues[rail]).Wait(ticket, limit), rail);
  }

  WARPVERBS_DEVICE static Status Named(Status status, uint32_t rail) {
    status.rail = status.ok() ? 0 : static_cast<uint8_t>(rail);
    return status;
  }

  const RailsView& view_;
  uint32_t caller_;
  Group<A, C> group_;
};

}  // namespace warpverbs::inline v0_2::device
