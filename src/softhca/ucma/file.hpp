#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "uverbs/event_pipe.hpp"

namespace softhca::ucma {

/// Kinds of events, as librdmacm numbers them.
///
/// @source  rdma-core v44, librdmacm/rdma_cma.h, rdma_cm_event_type
enum class EventKind : uint32_t {
  kAddressResolved = 0,
  kRouteResolved = 2,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kMulticastJoined = 12,
  kTimewaitExit = 15,
};

/// An event that the program has not read yet.
struct Event {
  uint32_t id = 0;       ///< id, or membership of a multicast group, that it belongs to
  uint32_t request = 0;  ///< id made for a connection request; 0: none
  rdma_ucm_event_resp response{};
};

/// An open file of the device: a queue of events, and a descriptor that is readable while events are pending.
///
/// The descriptor is the read end of a pipe that holds the id number of each event, so a program may wait for
/// it in every way that descriptors allow.
class File {
 public:
  /// @param on_loss  called for each event that Push() drops
  /// @errors  Errno: EMFILE and the like
  File(int flags, std::function<void()> on_loss);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  uverbs::FileId id() const { return pipe_.id(); }
  /// Returns the program's descriptor; valid until the program closes it.
  int descriptor() const { return pipe_.program_end(); }
  /// Marks the descriptor as the program's.
  void HandOver() { pipe_.HandOver(); }

  /// Queues an event; drops it if thousands are unread.
  void Push(const Event& event);
  /// Waits for an event unless the program's descriptor is non-blocking.
  ///
  /// @return  the id that the event belongs to
  /// @pre     the engine's lock is not held
  /// @errors  Errno: EAGAIN, EINTR
  uint32_t Wait() const;
  /// Takes the oldest event of an id.
  std::optional<Event> Take(uint32_t id);
  /// Takes back all unread events of an id.
  std::vector<Event> Withdraw(uint32_t id);

 private:
  uverbs::EventPipe pipe_;
  /// Duplicate of the program's descriptor: a waiting thread goes on when the program closes its own and the
  /// number is reused.
  int waiting_end_;
  std::deque<Event> events_;
};

/// Number of descriptors of a File's pipe that this library keeps.
inline constexpr uint32_t kOwnFileEnds = uverbs::kOwnPipeEnds + 1;

}  // namespace softhca::ucma
