#pragma once

#include "warpverbs/device/detail/group.hpp"
#include "warpverbs/device/operations.hpp"

/// Lists of writes in memory, which SendQueue::PostList() posts together.
namespace warpverbs::inline v0_2::device {

/// A write of local memory to the peer, as an entry of a list. The host swaps the keys once (mlx5::ToBe32).
struct alignas(16) ListEntry {
  uint64_t local;   ///< address on this side
  uint64_t remote;  ///< address at the peer
  uint64_t bytes;
  mlx5::Be32 lkey, rkey;
};
static_assert(sizeof(ListEntry) == 32);

/// The entries of a list that one warp writes: all of them, or its share of a block's.
///
/// Neighbours become one write if they touch on both sides, have the same keys, and stay between two
/// multiples of the device's longest message on this side. So each pair of neighbours decides for itself, and
/// no write of several entries is too long. An entry that is too long itself is split, as by Write().
///
/// @tparam kFills  fills sectors: see WqeWriter::Fill()
template <arch::Arch A, bool kFills>
class ListPart {
 public:
  WARPVERBS_DEVICE ListPart(const QueueView& view, const Group<A, Warp>& warp, const ListEntry* entries,
                            const Share& share)
      : view_(view), warp_(warp), entries_(entries), share_(share) {}

  /// Returns the slots that the part takes; more than the queue has if it needs too many.
  WARPVERBS_DEVICE uint32_t CountSlots() {
    uint32_t slots = 0;
    bool one_each = true;
    for (uint32_t i = share_.begin + warp_.rank(); i < share_.end; i += warp_.size()) {
      const uint32_t own = SlotsOf(entries_[i], Joins(i));
      one_each &= own == 1;
      slots += own;
      if (slots > view_.depth) slots = view_.depth + 1;  // so that the sum of all threads fits
    }
    one_each_ = warp_.AllTrue(one_each);
    return one_each_ ? share_.end - share_.begin : warp_.Sum(slots).all;
  }

  /// Returns an error of the entries that this lane counts.
  WARPVERBS_DEVICE RequestError Check(const RegionCheck& check) const {
    for (uint32_t i = share_.begin + warp_.rank(); i < share_.end; i += warp_.size()) {
      const RequestError error = WriteOf(entries_[i], entries_[i]).Check(check);
      if (error != RequestError::kNone) return error;
    }
    return RequestError::kNone;
  }

  /// Writes the WQEs, as many entries at a time as the warp has lanes. The lane of a run's last entry writes
  /// the run.
  ///
  /// @param index  the part's first slot
  /// @param last   last slot of the whole list: only its WQE has the caller's completion flags
  /// @pre    CountSlots() was called
  WARPVERBS_DEVICE void Encode(uint32_t index, uint32_t last, uint32_t flags) const {
    if (one_each_) return EncodeEach(index, last, flags);
    uint32_t open = share_.begin;  // first entry of the run that the next entries continue
    for (uint32_t tile = share_.begin; tile < share_.end; tile += warp_.size()) {
      const uint32_t i = tile + warp_.rank();
      const bool joins = i < share_.end && Joins(i);
      const ListEntry entry = i < share_.end ? entries_[i] : ListEntry{};
      const uint32_t slots = SlotsOf(entry, joins);
      const arch::LaneMask ends = A::Ballot(warp_.lanes(), !joins);
      const arch::LaneMask ends_below = ends & ((arch::LaneMask{1} << A::Lane()) - 1);
      const uint32_t first =
          ends_below == 0 ? open : tile + warp_.RanksThrough(Group<A, Warp>::Last(ends_below));
      const RankSum sum = warp_.Sum(slots);
      if (slots != 0) {
        const uint32_t at = index + sum.before;
        const auto write = WriteOf(entries_[first], entry);
        const uint32_t own_flags = FlagsOf(at + slots - 1, last, flags);
        slots == 1 ? write.template EncodeOne<A, kFills>(view_, at, own_flags)
                   : write.template Encode<A>(view_, at, own_flags);
      }
      index += sum.all;
      if (ends != 0) open = tile + warp_.RanksThrough(Group<A, Warp>::Last(ends));
    }
  }

  /// Returns the first 8 bytes of the list's last WQE, whichever lane has written it.
  WARPVERBS_DEVICE mlx5::Be64 Doorbell(uint32_t last) const {
    return WqeWriter<A>(view_, last).Doorbell({WqeOpcode::kRdmaWrite, 3, 0});
  }

 private:
  using Write = Message<WqeOpcode::kRdmaWrite>;

  /// Writes entries that take a slot each. Loads the next ones before it writes.
  WARPVERBS_DEVICE void EncodeEach(uint32_t index, uint32_t last, uint32_t flags) const {
    uint32_t i = share_.begin + warp_.rank();
    ListEntry next = i < share_.end ? entries_[i] : ListEntry{};
    for (index += warp_.rank(); i < share_.end; index += warp_.size()) {
      const ListEntry entry = next;
      i += warp_.size();
      if (i < share_.end) next = entries_[i];
      WriteOf(entry, entry).template EncodeOne<A, kFills>(view_, index, FlagsOf(index, last, flags));
    }
  }

  /// Returns the flags of the WQE whose last slot is `at`.
  WARPVERBS_DEVICE static uint32_t FlagsOf(uint32_t at, uint32_t last, uint32_t flags) {
    return at == last ? flags : WithoutCompletion(flags);
  }

  /// Returns the write from the start of `first` to the end of `last`.
  WARPVERBS_DEVICE static Write WriteOf(const ListEntry& first, const ListEntry& last) {
    return {{first.remote, last.rkey}, {first.local, last.local + last.bytes - first.local, last.lkey}, {}};
  }

  /// Returns true if the next entry continues entry `i`.
  WARPVERBS_DEVICE bool Joins(uint32_t i) const {
    if (i + 1 >= share_.end) return false;
    const ListEntry entry = entries_[i], next = entries_[i + 1];
    const uint64_t longest = view_.max_message;
    return (entry.local + entry.bytes == next.local) & (entry.remote + entry.bytes == next.remote) &
           (entry.lkey.raw == next.lkey.raw) & (entry.rkey.raw == next.rkey.raw) &
           (entry.bytes - 1 < longest) & (next.bytes - 1 < longest) &
           ((entry.local ^ (next.local + next.bytes - 1)) < longest);
  }

  /// Returns the slots of the write that ends with an entry.
  WARPVERBS_DEVICE uint32_t SlotsOf(const ListEntry& entry, bool joins) const {
    return joins || entry.bytes == 0 ? 0 : WriteOf(entry, entry).Slots(view_);
  }

  const QueueView& view_;
  Group<A, Warp> warp_;
  const ListEntry* entries_;
  Share share_;
  bool one_each_ = false;  ///< each entry takes one slot: known from CountSlots()
};

}  // namespace warpverbs::inline v0_2::device
