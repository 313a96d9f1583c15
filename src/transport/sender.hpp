#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "channel.hpp"
#include "request.hpp"

namespace warpverbs::inline v0_2::transport {

/// The sending half of a transport: cuts transfers into pieces, posts them in order as channels have room,
/// and completes each transfer when its pieces are done. Not thread-safe.
class Sender {
 public:
  explicit Sender(uint64_t piece_bytes) : piece_bytes_(piece_bytes) {}

  /// Lets transfers start.
  ///
  /// @param channels  open channels; they outlive this, or Drop() is called first
  void Open(const std::vector<Channel*>& channels);

  /// Returns a new transfer for the caller to fill in and submit.
  Transfer& New() { return pool_.Take(); }

  /// Queues a transfer, and posts as much as there is room for. PostQueued() posts the rest in order.
  void Submit(Transfer& transfer, Clock::time_point deadline);
  void PostQueued();

  /// Takes note that a piece is done.
  void OnDone(Transfer& transfer, std::vector<Finished>& finished);

  /// Completes the transfers whose deadline has passed. Their pieces that are not posted yet will not be.
  ///
  /// @return  time of the next deadline
  Clock::time_point Expire(Clock::time_point now, std::vector<Finished>& finished);

  /// Completes and removes all transfers.
  ///
  /// @pre  the NIC no longer works on any of them
  void Drop(const Status& status, std::vector<Finished>& finished);

  bool idle() const { return transfers_.empty(); }

 private:
  void Start(Transfer& transfer);
  void SkipUnposted(Transfer& transfer);
  bool PostNext(Transfer& transfer);
  void Cancel(Transfer& transfer);
  void Release(Transfer& transfer);

  uint64_t piece_bytes_;
  std::vector<Channel*> channels_;
  Pool<Transfer> pool_;
  IntrusiveList<Transfer> transfers_;  // all transfers
  IntrusiveList<Transfer, kQueued>
      queue_;                      // transfers with pieces to post, in order; the first may have started
  Deadlines<Transfer> deadlines_;  // transfers with a deadline
  uint32_t next_channel_ = 0;
  uint32_t next_sequence_ = 0;
};

}  // namespace warpverbs::inline v0_2::transport
