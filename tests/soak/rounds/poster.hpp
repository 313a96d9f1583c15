#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "soak/rounds/context.hpp"
#include "soak/rounds/memory.hpp"
#include "warpverbs/device/memory.hpp"
#include "warpverbs/device/queue_view.hpp"
#include "warpverbs/device/status.hpp"

namespace soak {

/// What both sides of a pair of endpoints know about it in a life.
struct PairPlan {
  std::array<uint32_t, 2> posters;  ///< threads that post, of each side
  uint32_t cell_bytes;              ///< a poster's part of the peer's memory consists of cells
  uint32_t cells;
  uint32_t operations;  ///< number for each poster
  bool receives;        ///< both sides have receive queues
  uint32_t receive_bytes;

  size_t slot_bytes() const { return size_t{cell_bytes} * cells; }
};

/// What explains the errors of an endpoint's queues.
class Causes {
 public:
  /// @param keeps_cause  completions go to a ring, which shows what failed first
  Causes(const Context& context, uint32_t pair, bool keeps_cause)
      : context_(context), pair_(pair), keeps_cause_(keeps_cause) {}

  /// Notes WQEs that must fail.
  void AddBad(uint32_t first_index, uint32_t last_index);

  /// Judges an error by what was done to both sides. A receive is flushed whatever failed.
  ///
  /// @return  empty, or what is wrong with it
  std::string Judge(uint8_t syndrome, bool receiving = false) const;

  /// Judges the error of a send queue. Call it when all posters have ended: only then all bad WQEs are known.
  std::string Judge(const warpverbs::device::Status& status) const;

  /// Returns whether the queue pair may have failed.
  bool MayFail() const;

  bool keeps_cause() const { return keeps_cause_; }
  Link& own() const { return context_.own().links[pair_]; }
  Link& other() const { return context_.other().links[pair_]; }

 private:
  const Context& context_;
  uint32_t pair_;
  bool keeps_cause_;
  mutable std::mutex mutex_;
  std::vector<std::pair<uint32_t, uint32_t>> bad_;
};

/// What a posting thread works with.
struct PosterSetUp {
  const Context& context;
  const PairPlan& plan;
  Causes& causes;
  Shadow& shadow;  ///< expected bytes of its part of the peer's memory
  uint32_t pair, poster;
  uint64_t seed;
  warpverbs::device::QueueView view;
  std::span<uint8_t> source, landing;  ///< memory of this side, of the shadow's size
  warpverbs::device::LocalMemory local_source, local_landing;
  warpverbs::device::RemoteMemory remote;
  const uint64_t* abort;
  uint32_t wait_cqn;  ///< 0: WAIT may not be posted
  bool misbehaves;
};

/// Returns the bytes of a message that a poster sends.
uint64_t MessageKey(const RoundPlan& plan, uint32_t side, uint32_t pair, uint32_t poster, uint32_t number);

/// What begins each message that has no immediate data.
struct MessageHeader {
  uint32_t poster, number, bytes;
};

/// Posts the operations of a thread, waits for each, and checks what it did.
///
/// @tparam Sharing  of warpverbs/device/cooperation.hpp
/// @return  the error by which the queue failed, or success
template <class Sharing>
warpverbs::device::Status RunPoster(const PosterSetUp& set_up);

}  // namespace soak
