#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "uverbs/descriptors.hpp"

namespace softhca::uverbs {

/// Who reads a pipe: the verbs and rdma_cm, or whoever listens to firmware.
enum class EventSort : uint8_t { kVerbs, kDevx };

/// A pipe of events to the program: a completion channel, the asynchronous events of a context, or a DEVX
/// event channel.
///
/// Every event starts with the 64-bit number by which the program knows the object.
class EventPipe {
 public:
  /// @errors  Errno: EMFILE and its kin
  EventPipe(EventSort sort, size_t event_bytes);
  ~EventPipe();
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  FileId id() const { return id_; }
  EventSort sort() const { return sort_; }
  size_t event_bytes() const { return event_bytes_; }
  /// The end that the program reads from.
  int program_end() const { return program_end_; }
  /// Says that the program has its end, and closes it.
  void HandOver() { handed_over_ = true; }

  /// @return  false if the program has left so many events unread that the pipe is full
  bool Write(const void* event);
  /// Takes back the events of an object that the program has not read.
  ///
  /// @return  how many they were
  uint32_t Withdraw(uint64_t element);

 private:
  EventSort sort_;
  size_t event_bytes_;
  int program_end_;
  bool handed_over_ = false;
  int write_end_;
  int own_reader_;  ///< never waits, whatever the program has made of its end
  FileId id_;
};

/// Descriptors of a pipe that this library holds for itself.
inline constexpr uint32_t kOwnPipeEnds = 2;

/// One object's events on a pipe, counted: destroying the object reports how many of them the program got.
class EventSource {
 public:
  EventSource(std::shared_ptr<EventPipe> pipe, uint64_t element)
      : pipe_(std::move(pipe)), element_(element) {}

  void SendCompletion();
  /// @param type  an ibv_event_type
  void SendAsync(uint32_t type);
  /// Takes back what is unread. The object sends nothing any more.
  ///
  /// @return  how many events the program has read
  uint32_t Close();

 private:
  void Send(const void* event);

  std::shared_ptr<EventPipe> pipe_;  ///< null: the program wants no events
  uint64_t element_;
  uint32_t sent_ = 0;
};

}  // namespace softhca::uverbs
