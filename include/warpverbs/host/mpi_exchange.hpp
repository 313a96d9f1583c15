#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "warpverbs/host/error.hpp"
#include "warpverbs/host/exchange.hpp"

/// For programs that have MPI; the library itself is not built with it. Target: warpverbs::mpi.
namespace warpverbs::inline v0_2::host {

/// Messages to another rank, or to this one.
///
/// Calls MPI from the thread that swaps: MPI_THREAD_FUNNELED does if that is the main one. To be destroyed
/// before MPI_Finalize().
class MpiExchange final : public Exchange {
 public:
  /// @param communicator  stays the program's. Between two ranks nothing else may use the tag there
  MpiExchange(MPI_Comm communicator, int peer, int tag = 18517)
      : communicator_(communicator), peer_(peer), tag_(tag) {}
  MpiExchange(const MpiExchange&) = delete;
  MpiExchange& operator=(const MpiExchange&) = delete;
  ~MpiExchange() override { Abandon(); }

  /// @errors  Error: the deadline passed; a message is too long; what MPI says, if the communicator's error
  ///          handler returns, which that of most programs does not; an earlier swap failed
  std::vector<uint8_t> Swap(std::span<const uint8_t> mine, std::string_view what, Deadline deadline) override;
  using Exchange::Swap;

  std::string PeerName() const override { return "rank " + std::to_string(peer_); }

 private:
  using Clock = std::chrono::steady_clock;

  /// What errors tell of a swap.
  struct Call {
    std::string object;
    Clock::time_point start;
    Deadline deadline;
  };

  [[noreturn]] static void Fail(const Call& call, const std::string& reason, const std::string& remedy) {
    throw Error("swap", call.object, reason, remedy);
  }
  static void Check(const Call& call, int result);
  /// Yields the processor, or gives up.
  static void Wait(const Call& call, const char* missing);
  static void Finish(const Call& call, MPI_Request& request, const char* missing);
  std::vector<uint8_t> Receive(const Call& call);
  void Abandon() noexcept;
  static void Abandon(MPI_Request& request, std::unique_ptr<std::vector<uint8_t>>& bytes) noexcept;

  MPI_Comm communicator_;
  int peer_, tag_;
  bool failed_ = false;
  MPI_Request sending_ = MPI_REQUEST_NULL, receiving_ = MPI_REQUEST_NULL;
  std::unique_ptr<std::vector<uint8_t>> sent_, received_;  // while MPI may read the one and write the other
};

inline std::vector<uint8_t> MpiExchange::Swap(std::span<const uint8_t> mine, std::string_view what,
                                              Deadline deadline) {
  const Call call{std::string(what) + " with " + PeerName(), Clock::now(), deadline};
  if (failed_)
    Fail(call, "an earlier swap failed", "Make another MpiExchange with another tag on both sides");
  if (mine.size() > kMaxSwapBytes) {
    throw Error("swap", call.object, std::to_string(mine.size()) + " bytes are more than a message may have",
                "Swap at most " + std::to_string(kMaxSwapBytes) + " bytes at a time");
  }
  static_assert(kMaxSwapBytes <= INT_MAX);
  failed_ = true;  // whatever ends this half-way
  sent_ = std::make_unique<std::vector<uint8_t>>(mine.begin(), mine.end());
  Check(call, MPI_Isend(sent_->data(), static_cast<int>(sent_->size()), MPI_BYTE, peer_, tag_, communicator_,
                        &sending_));
  std::vector<uint8_t> theirs = Receive(call);
  Finish(call, sending_, "it did not take what was sent");
  failed_ = false;
  return theirs;
}

inline std::vector<uint8_t> MpiExchange::Receive(const Call& call) {
  MPI_Message message = MPI_MESSAGE_NULL;
  MPI_Status status{};
  for (int found = 0;;) {
    Check(call, MPI_Improbe(peer_, tag_, communicator_, &found, &message, &status));
    if (found != 0) break;
    Wait(call, "no message came");
  }
  int bytes = 0;
  Check(call, MPI_Get_count(&status, MPI_BYTE, &bytes));
  const bool fits = bytes >= 0 && static_cast<size_t>(bytes) <= kMaxSwapBytes;
  if (!fits) {
    // It is left with MPI: nothing else takes it from there but memory for all of it.
    Fail(call, "its message is longer than " + std::to_string(kMaxSwapBytes) + " bytes",
         "Swap less at a time");
  }
  received_ = std::make_unique<std::vector<uint8_t>>(static_cast<size_t>(bytes));
  Check(call, MPI_Imrecv(received_->data(), bytes, MPI_BYTE, &message, &receiving_));
  // Of a long message only the head may be here: the rest comes while its sender calls MPI.
  Finish(call, receiving_, "its message began and did not end");
  return std::move(*received_);
}

inline void MpiExchange::Finish(const Call& call, MPI_Request& request, const char* missing) {
  for (int done = 0;;) {
    Check(call, MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) return;
    Wait(call, missing);
  }
}

inline void MpiExchange::Check(const Call& call, int result) {
  if (result == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(result, text, &length);
  Fail(call, std::string(text, static_cast<size_t>(length)), "Check the communicator and the rank");
}

inline void MpiExchange::Wait(const Call& call, const char* missing) {
  if (Clock::now() < call.deadline) return std::this_thread::yield();
  char within[48];
  std::snprintf(within, sizeof within, " within %.3g s",
                std::chrono::duration<double>(std::max(call.deadline, call.start) - call.start).count());
  Fail(call, std::string(missing) + within, "See what holds that rank up, or wait longer");
}

inline void MpiExchange::Abandon() noexcept {
  Abandon(sending_, sent_);
  Abandon(receiving_, received_);
}

/// MPI may read a message that the peer has not taken, and write one that it has not ended, for as long as it
/// likes: then it keeps the bytes.
inline void MpiExchange::Abandon(MPI_Request& request,
                                 std::unique_ptr<std::vector<uint8_t>>& bytes) noexcept {
  if (request == MPI_REQUEST_NULL) return;
  int done = 0;
  if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done != 0) return;
  MPI_Request_free(&request);
  static_cast<void>(bytes.release());
}

}  // namespace warpverbs::inline v0_2::host
