#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deadlines.hpp"
#include "intrusive_list.hpp"
#include "pieces.hpp"
#include "warpverbs/transport/detail/handler.hpp"
#include "warpverbs/transport/memory.hpp"

namespace warpverbs::inline v0_2::transport {

/// A handler whose operation has ended. It is called while no lock is held.
struct Finished {
  detail::Handler handler;
  Status status;
};

/// Prints a time in the largest unit that divides it: "5 ms".
inline std::string ToString(std::chrono::nanoseconds time) {
  constexpr std::array<std::pair<int64_t, const char*>, 3> kUnits{
      {{1'000'000'000, " s"}, {1'000'000, " ms"}, {1'000, " us"}}};
  for (const auto& [ns, name] : kUnits) {
    if (time.count() % ns == 0) return std::to_string(time.count() / ns) + name;
  }
  return std::to_string(time.count()) + " ns";
}

/// The handler of an operation that has not ended.
struct PendingHandler {
  detail::Handler handler;             ///< empty once completed
  std::chrono::nanoseconds timeout{};  ///< timeout of the call, if it has a deadline

  /// Moves the handler to `finished`, once.
  ///
  /// @errors  std::bad_alloc: the handler is still pending
  void Complete(Status status, std::vector<Finished>& finished) {
    if (!handler) return;
    Finished& entry = finished.emplace_back();
    entry.handler = std::move(handler);
    entry.status = std::move(status);
  }
};

/// The kind of ListNode in a Sender's queue of transfers to post.
inline constexpr int kQueued = 1;

/// Memory of both sides: all that a transfer moves, or one part of several.
struct Part {
  uint64_t local = 0, remote = 0, bytes = 0;
  std::shared_ptr<const Registration::Keys> registered{};  ///< keeps the local memory registered for the NIC
  std::array<uint32_t, AccessKey::kMaxNics> rkeys{};       ///< one for each NIC of the peer
};

/// A write or a read. It exists until its handler was completed and the NIC is done with all posted pieces.
struct Transfer : ListNode<Transfer>, ListNode<Transfer, kQueued>, DeadlineNode<Transfer> {
  bool is_read = false;
  bool notify = false;
  bool started = false;    ///< the first piece was posted
  bool cancelled = false;  ///< no handler is pending: the remaining pieces shall not be posted
  Part first{};
  std::vector<Part> rest{};  ///< only of a list: one part allocates nothing
  size_t next_part = 0;      ///< part of the next piece, and where in it that begins
  uint64_t next_offset = 0;
  Pieces pieces{};                                         ///< valid once started
  uint64_t next_piece = 0;                                 ///< all earlier pieces were posted or skipped
  uint64_t outstanding = 0;  ///< number of pieces that are posted and not complete
  uint32_t sequence = 0;     ///< index among notified writes; valid once started, with `notify`
  PendingHandler pending{};

  bool all_posted() const { return started && next_piece == pieces.count; }
  const Part& part(size_t index) const { return index == 0 ? first : rest[index - 1]; }
  size_t parts() const { return 1 + rest.size(); }
};

}  // namespace warpverbs::inline v0_2::transport
