#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "uverbs/descriptors.hpp"

namespace softhca::uverbs {

/// Reader of a pipe: verbs and rdma_cm, or DEVX.
enum class EventSort : uint8_t { kVerbs, kDevx };

/// A pipe of events to the program: a completion channel, the asynchronous events of a context, or a DEVX
/// event channel.
///
/// Every event starts with the 64-bit number that the program has given to the object.
class EventPipe {
 public:
  /// @param on_loss  called for each event that finds the pipe full; empty: nothing
  /// @errors  Errno: EMFILE and the like
  EventPipe(EventSort sort, size_t event_bytes, std::function<void()> on_loss);
  ~EventPipe();
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  FileId id() const { return id_; }
  EventSort sort() const { return sort_; }
  size_t event_bytes() const { return event_bytes_; }
  /// Returns the program's end, for reading.
  int program_end() const { return program_end_; }
  /// Marks the end as the program's, which closes it.
  void HandOver() { handed_over_ = true; }

  /// @return  false if the pipe is full of unread events
  bool Write(const void* event);
  /// Takes back the unread events of an object.
  ///
  /// @return  the number of events taken back
  uint32_t Withdraw(uint64_t element);

 private:
  EventSort sort_;
  size_t event_bytes_;
  std::function<void()> on_loss_;
  int program_end_;
  bool handed_over_ = false;
  int write_end_;
  int own_reader_;  ///< non-blocking, whatever the flags of the program's end
  FileId id_;
};

/// Number of descriptors of a pipe that this library keeps.
inline constexpr uint32_t kOwnPipeEnds = 2;

/// Sends the events of one object to a pipe and counts them: destroying the object reports how many of them
/// the program has read.
class EventSource {
 public:
  EventSource(std::shared_ptr<EventPipe> pipe, uint64_t element)
      : pipe_(std::move(pipe)), element_(element) {}

  void SendCompletion();
  /// @param type  an ibv_event_type
  void SendAsync(uint32_t type);
  /// Takes back the unread events. The object sends no more.
  ///
  /// @return  the number of events that the program has read
  uint32_t Close();

 private:
  void Send(const void* event);

  std::shared_ptr<EventPipe> pipe_;  ///< null: the program wants no events
  uint64_t element_;
  uint32_t sent_ = 0;
};

}  // namespace softhca::uverbs
