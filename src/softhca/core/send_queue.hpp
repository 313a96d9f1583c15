#pragma once

#include <cstdint>
#include <optional>

#include "core/qp.hpp"
#include "core/wqe_reader.hpp"

/// What all ways to a peer have in common: how entries are found, judged and completed.
namespace softhca {

/// Takes in what a doorbell has announced, where the processor cannot see it. A queue pair whose queue the
/// program has freed fails.
void FetchPosted(QueuePair& qp);

/// How many WQEBBs the doorbell record announces from `index` on.
uint32_t PostedWqebbs(const QueuePair& qp, uint32_t index);

/// How a send work queue entry ends.
struct Outcome {
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  std::optional<uint8_t> vendor_syndrome{};  ///< the one that goes with the syndrome, unless given
};

/// How the program has ordered the entry of an index to fail, if it has.
std::optional<Outcome> OrderedFailure(const QueuePair& qp, uint16_t index);

/// What is to be done with an entry when its turn comes.
struct Verdict {
  enum class Kind : uint8_t {
    kSend,  ///< goes to the peer
    kWait,  ///< what it waits for has not come
    kEnd,   ///< ends with `outcome`, and the peer hears nothing of it
  };
  Kind kind = Kind::kSend;
  Outcome outcome{};
};

/// Judges an entry: flushed, ordered to fail, faulty, local, or to be sent.
///
/// @param fault  what SendWqe::Read() said
Verdict Judge(const QueuePair& qp, const SendWqe& wqe, mlx5::Syndrome fault);

/// Completes the entry at `send_index` and moves on; a failure ends in the error state.
void CompleteSend(QueuePair& qp, const SendEntry& entry, const Outcome& outcome);

}  // namespace softhca
