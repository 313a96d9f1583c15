#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/qp.hpp"
#include "core/remote_memory.hpp"
#include "wire/packet_sink.hpp"

namespace softhca {

/// The answers to reads and atomics of a peer, in the order of its requests. A read's bytes are fetched when
/// they are sent, so a long answer waits in few words.
class AnswerQueue {
 public:
  AnswerQueue(const QueuePair& qp, PacketSink& sink) : qp_(qp), sink_(sink) {}

  /// Whether the peer may have one more request under way than it has now.
  bool HasRoom() const;
  /// @pre  HasRoom(); `psn` comes after all others
  void AddRead(uint32_t psn, uint32_t msn, const RemoteRange& range);
  /// The same for an atomic that was just executed; its result is kept for duplicates.
  void AddAtomic(uint32_t psn, uint32_t msn, uint64_t original);

  /// Answers a read or a part of it anew, in its place among the others.
  void RepeatRead(uint32_t psn, uint32_t msn, const RemoteRange& range);
  /// Answers an atomic anew, if its result is still known.
  void RepeatAtomic(uint32_t psn, uint32_t msn);

  /// A read whose memory is gone.
  struct Refusal {
    uint32_t psn;
    mlx5::Syndrome syndrome;
  };
  /// Sends up to a burst.
  ///
  /// @return  what ended it early, and with it the connection; the answers that followed are gone
  std::optional<Refusal> Send();

  bool empty() const { return answers_.empty(); }

 private:
  struct Answer {
    uint32_t psn;  ///< of the next packet
    uint32_t packets;
    uint32_t msn;
    bool again = false;  ///< to a duplicate
    bool atomic = false;
    uint64_t original = 0;  ///< an atomic's
    RemoteRange rest{};     ///< a read's: what has yet to be sent
    bool begun = false;
  };
  struct Result {
    uint32_t psn;
    uint64_t original;
  };

  size_t Count(bool again) const;
  void Repeat(const Answer& answer);
  void SendAtomic(const Answer& answer);
  mlx5::Syndrome SendReadPacket(Answer& answer);

  const QueuePair& qp_;
  PacketSink& sink_;
  std::vector<Answer> answers_;  ///< by PSN
  std::vector<Result> results_;  ///< of the latest atomics: a ring
  size_t oldest_result_ = 0;
};

}  // namespace softhca
