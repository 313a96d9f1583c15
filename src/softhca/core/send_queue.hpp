#pragma once

#include <cstdint>
#include <optional>

#include "core/qp.hpp"
#include "core/wqe_reader.hpp"

/// Steps that every path to a peer shares: how entries are found, classified and completed.
namespace softhca {

/// Fetches newly posted entries from a queue in device memory. The queue pair fails if the program has freed
/// that memory.
void FetchPosted(QueuePair& qp);

/// Returns the number of WQEBBs that the doorbell record announces from `index` on.
uint32_t PostedWqebbs(const QueuePair& qp, uint32_t index);

/// Returns whether the next entry changes a memory window or an indirect key.
bool BeginsWithKeyChange(const QueuePair& qp);

/// Result of a send work queue entry.
struct WqeResult {
  mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
  std::optional<uint8_t> vendor_syndrome{};  ///< default: the code that goes with the syndrome
};

/// Returns the failure that the program has injected into the entry at `index`, if any.
std::optional<WqeResult> FindInjectedFailure(const QueuePair& qp, uint16_t index);

/// What to do with the next entry.
struct WqeAction {
  enum class Kind : uint8_t {
    kSend,  ///< send it to the peer
    kWait,  ///< leave it: what it waits for has not happened
    kEnd,   ///< complete it without the peer, see ExecuteLocally()
  };
  Kind kind = Kind::kSend;
  WqeResult result{};
};

/// Classifies an entry: flushed, made to fail by the program, invalid, local, or to be sent.
///
/// @param fault  result of SendWqe::Read()
WqeAction Classify(const QueuePair& qp, const SendWqe& wqe, mlx5::Syndrome fault);

/// Executes an entry that needs no peer, if `result` is no failure. Call it once, in the entry's turn.
///
/// @return  the result to complete it with
WqeResult ExecuteLocally(QueuePair& qp, const SendWqe& wqe, const WqeResult& result);

/// Completes the entry at `send_index` and moves on. A failure moves the queue pair to the error state.
void CompleteSend(QueuePair& qp, const SendEntry& entry, const WqeResult& result);

}  // namespace softhca
