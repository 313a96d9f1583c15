#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

/// What the calls of the data path return. They never throw, print or trap.
namespace warpverbs::inline v0_2::device {

enum class Code : uint8_t {
  kOk,
  kPending,  ///< not complete yet
  kFull,     ///< no free slot, and the caller did not want to wait for one; nothing was posted
  kTimeout,  ///< the deadline passed
  kAborted,  ///< the abort word was set
  kInvalid,  ///< invalid request, see Status::request_error; nothing was posted
  kError,    ///< failed queue pair, with its syndrome if that is known; lasts until the reset
};

/// The reason for kInvalid. Every build finds those up to kSharing, a checked build the others, too.
enum class RequestError : uint8_t {
  kNone,
  /// more WQEBBs than the queue has, or than its batch has left; more entries than one message gathers
  kTooManySlots,
  kMessageTooLong,  ///< longer than the device's longest message, and cannot be split
  kRefusedTicket,   ///< a wait for a post that was refused
  kReleaseScope,    ///< a queue in host memory, and an arch whose releases reach only its own GPU
  kSharing,         ///< Contended posters on a queue for others, or the other way: EndpointConfig::contended
  kSecondPoster,    ///< a second poster on an exclusive queue
  kMisaligned,      ///< an atomic's address that is not a multiple of its size
  kUnknownLkey,     ///< no registered region of this side has the key
  kLocalOutOfBounds,   ///< a buffer outside the region of its key
  kLocalReadOnly,      ///< a region that the NIC may not write
  kUnknownRkey,        ///< no region of the peer has the key
  kRemoteOutOfBounds,  ///< a remote range outside the region of its key
  kRemoteRights,       ///< a region of the peer that does not allow the operation
  kRelaxedOrdering,    ///< a signal, the data before it or an atomic in a region with relaxed ordering
  kSwappedKey,         ///< the key of a region with its bytes swapped
};

/// The result of a call: a code and, for kError, what is known of the failure.
struct [[nodiscard]] Status {
  Code code = Code::kOk;
  /// mlx5::Syndrome; 0 without kError, or if a poster gave up, see SendQueue
  uint8_t syndrome = 0;
  uint8_t vendor_syndrome = 0;
  uint8_t opcode = 0;      ///< mlx5::WqeOpcode of the first failed WQE that was seen
  uint16_t wqe_index = 0;  ///< index of that WQE modulo 2^16
  RequestError request_error = RequestError::kNone;
  uint8_t rail = 0;  ///< number of the rail that has failed, from rails.hpp

  WARPVERBS_HOST_DEVICE constexpr bool ok() const { return code == Code::kOk; }
};

/// Names a post by the index of its last WQE modulo 2^32. Valid until 2^31 more slots are posted to its
/// queue.
struct Ticket {
  uint32_t index;
};

/// The result of a post. The ticket of a post that was refused never completes: a wait for it returns
/// kInvalid.
struct [[nodiscard]] Posted {
  Status status;
  Ticket ticket;
};

/// Bounds a wait. Without a deadline a call does not wait.
struct WaitLimit {
  uint64_t deadline_ns = 0;         ///< time of the arch's NowNs()
  const uint64_t* abort = nullptr;  ///< word that ends the wait when it is not 0
};

}  // namespace warpverbs::inline v0_2::device
