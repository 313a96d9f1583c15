#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "deadlines.hpp"
#include "intrusive_list.hpp"
#include "pieces.hpp"
#include "warpverbs/transport/detail/handler.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::transport {

/// A handler whose operation has ended; called when no lock is held.
struct Finished {
  detail::Handler handler;
  Status status;
};

/// Somebody who waits for the end of an operation.
struct Waiter {
  detail::Handler handler;             ///< empty: it was answered
  std::chrono::nanoseconds timeout{};  ///< that the call asked for, if there is a deadline

  void Answer(Status status, std::vector<Finished>& finished) {
    if (!handler) return;
    Finished& one = finished.emplace_back();  // without memory for it the handler still waits
    one.handler = std::move(handler);
    one.status = std::move(status);
  }
};

/// The kind of the places in a Sender's queue.
inline constexpr int kQueued = 1;

/// A write or a read. It lives until nobody waits for it and the NIC is done with all that was posted.
struct Transfer : ListNode<Transfer>, ListNode<Transfer, kQueued>, DeadlineNode<Transfer> {
  bool is_read = false;
  bool notify = false;
  bool started = false;    ///< the first piece was posted
  bool cancelled = false;  ///< nobody waits: what is not posted yet is not to be
  uint64_t local = 0, remote = 0;
  std::shared_ptr<const Registration::Keys> registered{};  ///< as long as the NIC works on the local memory
  std::array<uint32_t, AccessKey::kMaxNics> rkeys{};       ///< by NIC of the peer
  Pieces pieces{};                                         ///< from the start on
  uint64_t next_piece = 0;                                 ///< all before were posted or left out
  uint64_t under_way = 0;                                  ///< posted and not complete
  uint32_t sequence = 0;                                   ///< with `notify`, from the start on
  Waiter waiter{};

  bool all_posted() const { return started && next_piece == pieces.count(); }
};

}  // namespace warpverbs::transport
