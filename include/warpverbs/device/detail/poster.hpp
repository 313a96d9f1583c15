#pragma once

#include "warpverbs/device/detail/producer.hpp"
#include "warpverbs/device/detail/team.hpp"

namespace warpverbs::inline v0_2::device {

/// What one of a team does to post: it reserves slots, writes its own, and publishes them, with the others.
template <arch::Arch A, class Sharing, class Cooperation>
class Poster {
  static constexpr bool kAlone = std::is_same_v<Cooperation, Thread>;
  static constexpr bool kShares = !std::is_same_v<Sharing, Exclusive>;

 public:
  /// Lanes in lockstep cannot wait in loops for each other, as sharers do.
  static constexpr bool kLanesCollide = kAlone && A::kLockstep && kShares;

  WARPVERBS_DEVICE Poster(const QueueView& view, const Cooperation& cooperation)
      : producer_(view), team_(cooperation) {}

  WARPVERBS_DEVICE const QueueView& view() const { return producer_.view(); }
  WARPVERBS_DEVICE const Team<A, Cooperation>& team() const { return team_; }
  WARPVERBS_DEVICE Producer<A, Sharing>& producer() { return producer_; }
  WARPVERBS_DEVICE const Producer<A, Sharing>& producer() const { return producer_; }

  WARPVERBS_DEVICE static Posted Invalid(RequestError mistake) {
    return {{.code = Code::kInvalid, .request_error = mistake}, {}};
  }

  template <class Operation>
  WARPVERBS_DEVICE RequestError Refusal(const Operation& operation, uint32_t slots) const {
    if (slots > view().depth)
      return slots == kTooLong ? RequestError::kMessageTooLong : RequestError::kTooManySlots;
    if constexpr (kChecked) return operation.Check(RegionCheck(view().control->regions));
    return RequestError::kNone;
  }

  template <class Operation>
  WARPVERBS_DEVICE Posted Post(const Operation& operation, const WaitLimit& limit, uint32_t flags) {
    if constexpr (kLanesCollide) {
      return PostInTurn(Team<A, Warp>(Warp(A::ActiveLanes())), operation, limit, flags);
    } else {
      return PostBy(team_, operation, limit, flags);
    }
  }

  /// Reserves slots for each of a team, if all of them want and the slots are known to be free.
  template <class Team>
  WARPVERBS_DEVICE bool ReserveAtOnce(const Team& team, bool wanted, uint32_t slots, uint32_t& base) {
    const uint32_t all = slots * team.size();
    if constexpr (kShares) {
      bool taken = team.All(wanted & producer_.trusts()) && team.Leads() && producer_.HasRoom(all);
      if (taken) taken = producer_.tail().Claim(all);
      taken = Told(team, producer_.tail().next() - all, taken ? Code::kOk : Code::kFull, base) == Code::kOk;
      if (!taken) team.Gather();  // for what the leader says next
      return taken;
    } else {
      if (!team.All(wanted & producer_.HasRoom(all))) return false;
      producer_.tail().Claim(all);  // each lane counts along: nobody need ask the leader
      base = producer_.tail().next() - all;
      return true;
    }
  }

  /// Reserves slots for each of a team as soon as they are free.
  template <class Team>
  WARPVERBS_DEVICE Code Reserve(const Team& team, uint32_t slots, const WaitLimit& limit, uint32_t& base) {
    const uint32_t all = slots * team.size();
    Code code = Code::kOk;
    if (team.Leads()) code = producer_.Reserve(all, limit);
    code = Told(team, producer_.tail().next() - all, code, base);
    if constexpr (!kShares && !kAlone) producer_.Learn(team.Share(producer_.complete()));
    return code;
  }

  /// Publishes what a team has written.
  ///
  /// @param doorbell  of the caller's last WQE
  template <class Team>
  WARPVERBS_DEVICE Code Publish(const Team& team, uint32_t base, uint32_t slots, mlx5::Be64 doorbell,
                                const uint64_t* abort) {
    const uint32_t end = base + slots * team.size();
    team.Join();
    Code code = Code::kOk;
    if (team.Leads()) code = producer_.Publish(base, end, doorbell, abort);
    if constexpr (kShares) code = team.Share(code);  // else there was no turn to wait for
    if (!team.Leads() && code == Code::kOk) producer_.tail().Follow(end);
    return code;
  }

 private:
  /// Most posts go a straight way: a branch costs a lone warp more than the arithmetic that it saves.
  template <class Team, class Operation>
  WARPVERBS_DEVICE Posted PostBy(const Team& team, const Operation& operation, const WaitLimit& limit,
                                 uint32_t flags) {
    const uint32_t slots = operation.Slots(view());
    const bool straight = (slots == 1) & (Refusal(operation, slots) == RequestError::kNone);
    uint32_t base = 0;
    if (!__builtin_expect(ReserveAtOnce(team, straight, 1, base), true)) {
      return PostWithCare(team, operation, limit, flags);
    }
    const uint32_t index = base + team.rank();
    const mlx5::Be64 doorbell = EncodeOne<A>(operation, view(), index, flags);
    const Code code = Publish(team, base, 1, doorbell, limit.abort);
    if (__builtin_expect(code != Code::kOk, false)) return {producer_.Explain(code), {}};
    return {{}, {index}};
  }

  /// By one reservation, if all operations can be posted, take as many slots, and fit into the queue
  /// together. Else a block's warps post each for itself, and a warp's lanes one after another.
  template <class Cooperating, class Operation>
  WARPVERBS_DEVICE Posted PostWithCare(const Team<A, Cooperating>& team, const Operation& operation,
                                       const WaitLimit& limit, uint32_t flags) {
    const uint32_t slots = operation.Slots(view());
    const RequestError mistake = Refusal(operation, slots);
    if constexpr (std::is_same_v<Cooperating, Thread>) {
      if (mistake != RequestError::kNone) return Invalid(mistake);
    } else {
      const bool same = slots == team.Share(slots);  // for all to share, whatever fits
      const bool fits = mistake == RequestError::kNone && slots * team.size() <= view().depth;
      if (!team.All(fits && same)) {
        if constexpr (std::is_same_v<Cooperating, Block>) {
          return PostBy(team.warp(), operation, limit, flags);
        } else {
          return PostInTurn(team, operation, limit, flags);
        }
      }
    }
    if (!team.All(producer_.trusts()))
      producer_.Distrust();  // what one of them knows of an error, who leads shall know
    uint32_t base = 0;
    Code code = Reserve(team, slots, limit, base);
    if (code != Code::kOk) return {producer_.Explain(code), {}};
    const uint32_t index = base + slots * team.rank();
    const mlx5::Be64 doorbell = operation.template Encode<A>(view(), index, flags);
    code = Publish(team, base, slots, doorbell, limit.abort);
    if (code != Code::kOk) return {producer_.Explain(code), {}};
    return {{}, {index + slots - 1}};
  }

  /// Each lane posts by itself, one after another: what they bring differs too much, or is too much.
  template <class Operation>
  WARPVERBS_DEVICE Posted PostInTurn(const Team<A, Warp>& team, const Operation& operation,
                                     const WaitLimit& limit, uint32_t flags) {
    Posted posted;
    for (arch::LaneMask rest = team.lanes(); rest != 0;) {
      const uint32_t lane = Team<A, Warp>::Last(rest);
      if (A::Lane() == lane) posted = PostBy(Team<A, Thread>(Thread{}), operation, limit, flags);
      // The end of an exclusive queue is in the registers of all; that of a shared one each finds by itself.
      if constexpr (!kAlone && !kShares) {
        producer_.tail().Follow(A::Shuffle(team.lanes(), producer_.tail().next(), lane));
      }
      rest &= ~(arch::LaneMask{1} << lane);
    }
    return posted;
  }

  /// What the leader of a team says: where the reserved slots begin, if the code is kOk.
  template <class Team>
  WARPVERBS_DEVICE Code Told(const Team& team, uint32_t leaders_base, Code code, uint32_t& base) const {
    const uint64_t both = team.Share(A::Join(leaders_base, static_cast<uint32_t>(code)));
    base = static_cast<uint32_t>(both);
    return static_cast<Code>(both >> 32);
  }

  Producer<A, Sharing> producer_;
  Team<A, Cooperation> team_;
};

}  // namespace warpverbs::inline v0_2::device
