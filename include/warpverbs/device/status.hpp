#pragma once

#include <cstdint>

#include "warpverbs/arch/arch.hpp"

/// What a call of the data path says. Nothing here throws, prints or traps.
namespace warpverbs::inline v0_2::device {

enum class Code : uint8_t {
  kOk,
  kPending,  ///< not complete yet
  kFull,     ///< no free slot, and the caller did not want to wait for one. Nothing was posted
  kTimeout,  ///< the deadline passed
  kAborted,  ///< the abort word was set
  kInvalid,  ///< the request cannot be posted: see Status::request_error. Nothing was posted
  kError,    ///< the queue pair has failed; the syndrome says why, if it is not 0. Lasting
};

/// Why a request cannot be posted. The first two are always found, the rest by a checked build only.
enum class RequestError : uint8_t {
  kNone,
  kTooManySlots,       ///< it takes more WQEBBs than the queue has, or than its batch has left
  kMessageTooLong,     ///< it is longer than the device's longest message and cannot be split
  kMisaligned,         ///< an atomic's address is no multiple of its size
  kUnknownLkey,        ///< no registered region of this side has the key
  kLocalOutOfBounds,   ///< the buffer does not lie in the region of its key
  kLocalReadOnly,      ///< the NIC may not write there
  kUnknownRkey,        ///< no region that the peer told of has the key
  kRemoteOutOfBounds,  ///< the remote range does not lie in the region of its key
  kRemoteRights,       ///< the peer's region does not allow the operation
  kRelaxedOrdering,    ///< a signal word, data that it tells of or an atomic is in a region without order
};

struct Status {
  Code code = Code::kOk;
  /// mlx5::Syndrome; 0 without kError, or where a poster gave up its turn: see SendQueue.
  uint8_t syndrome = 0;
  uint8_t vendor_syndrome = 0;
  uint8_t opcode = 0;      ///< mlx5::WqeOpcode of the first failed WQE that was seen
  uint16_t wqe_index = 0;  ///< and its index modulo 2^16
  RequestError request_error = RequestError::kNone;
  uint8_t reserved = 0;

  WARPVERBS_HOST_DEVICE constexpr bool ok() const { return code == Code::kOk; }
};

/// Names a post: the index of its last WQE modulo 2^32. Good until 2^31 more are posted to its queue.
struct Ticket {
  uint32_t index;
};

/// What posting gives: the ticket counts only where the status is kOk.
struct Posted {
  Status status;
  Ticket ticket;
};

/// When to stop waiting. By default at once.
struct WaitLimit {
  uint64_t deadline_ns = 0;         ///< in the arch's NowNs()
  const uint64_t* abort = nullptr;  ///< stop too when this word is not 0
};

}  // namespace warpverbs::inline v0_2::device
