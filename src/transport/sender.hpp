#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lane.hpp"
#include "request.hpp"

namespace warpverbs::transport {

/// The sending half of a transport: cuts transfers into pieces, posts them in turn as lanes have room, and
/// knows when each is done. Not thread-safe.
class Sender {
 public:
  explicit Sender(uint64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// From now on transfers may start.
  ///
  /// @param lanes  open; outlive this, or Drop() comes before
  void Open(const std::vector<Lane*>& lanes);

  /// A new transfer, to be filled in and then submitted.
  Transfer& New() { return pool_.Take(); }

  /// Posts what there is room for; the rest follows in order, by Pump().
  void Submit(Transfer& transfer, Clock::time_point deadline);
  void Pump();

  /// A piece is done.
  void OnDone(Transfer& transfer, std::vector<Finished>& finished);

  /// Answers those whose time is up. What of theirs has not been posted yet will not be.
  ///
  /// @return  when to look again
  Clock::time_point Expire(Clock::time_point now, std::vector<Finished>& finished);

  /// Answers all, and forgets all.
  ///
  /// @pre  the NIC knows none of them any more
  void Drop(const Status& status, std::vector<Finished>& finished);

  bool idle() const { return transfers_.empty(); }

 private:
  void Start(Transfer& transfer);
  void LeaveOut(Transfer& transfer);
  bool PostNext(Transfer& transfer);
  void Cancel(Transfer& transfer);
  void Retire(Transfer& transfer);

  uint64_t piece_bytes_;
  std::vector<Lane*> lanes_;
  Pool<Transfer> pool_;
  IntrusiveList<Transfer> transfers_;       // all
  IntrusiveList<Transfer, kQueued> queue_;  // those not all posted, in order; the first may have started
  Deadlines<Transfer> deadlines_;           // those that somebody waits for until a time
  uint32_t next_lane_ = 0;
  uint32_t next_sequence_ = 0;
};

}  // namespace warpverbs::transport
