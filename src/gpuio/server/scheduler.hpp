#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Work that needs buffers, one for each of its pieces.
class BufferUser {
 public:
  virtual ~BufferUser() = default;

  /// Says whether it would start a piece now. Only its own calls and callbacks change that.
  virtual bool WantsBuffer() const = 0;

  /// Starts a piece, which gives the buffer back by Scheduler::Return().
  ///
  /// @return  bytes of the piece
  virtual size_t Start(uint8_t* buffer) = 0;

  /// Says that it gets no buffer any more: its client is gone.
  virtual void Abandon() = 0;
};

/// Shares buffers among clients: each gets as many bytes as the others while it has work.
///
/// A client never holds more buffers than are free. So a client that works alone gets half of them, and one
/// whose machine has stopped cannot keep the others from theirs. Within a client, its works take turns.
class Scheduler {
 public:
  /// The share of a client. Works under way own it together with the client.
  class Share {
   public:
    size_t held() const { return held_; }

   private:
    friend class Scheduler;
    std::deque<std::shared_ptr<BufferUser>> waiting_;
    int64_t credit_ = 0;  // bytes
    size_t held_ = 0;     // buffers
    bool in_turn_ = false, goes_on_ = false, closed_ = false;
  };

  /// Where buffers come from.
  struct Source {
    std::function<size_t()> free{};
    std::function<uint8_t*()> take{};
    std::function<void(uint8_t*)> put{};
  };

  explicit Scheduler(Source source) : source_(std::move(source)) {}

  /// Starts pieces of a work whenever it wants, until it does not. Call it again when it wants more.
  ///
  /// @pre  it wants a buffer, and is not in the share already
  void Add(const std::shared_ptr<Share>& share, std::shared_ptr<BufferUser> user);

  void Return(Share& share, uint8_t* buffer);

  /// Abandons the waiting works of a client that is gone.
  void Close(Share& share);

 private:
  void Run();

  Source source_;
  std::deque<std::shared_ptr<Share>> turns_;
  bool running_ = false;
};

}  // namespace warpverbs::inline v0_2::gpuio
