#pragma once

#include <rdma/rdma_user_cm.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "uverbs/event_pipe.hpp"

namespace softhca::ucma {

/// Of events, as librdmacm counts them.
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
  kTimewaitExit = 15,
};

/// An event that waits for the program.
struct Event {
  uint32_t id = 0;       ///< whose it is
  uint32_t request = 0;  ///< the id that a request for a connection has brought; 0: none
  rdma_ucm_event_resp response{};
};

/// One opening of the device: a queue of events, and a descriptor that is readable while there are some.
///
/// The descriptor is the end of a pipe that holds the number of the id of each event. So a program may wait
/// for it in all ways that there are.
class File {
 public:
  /// @errors  Errno: EMFILE and its kin
  explicit File(int flags);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  uverbs::FileId id() const { return pipe_.id(); }
  /// The program's; valid until it closes it.
  int descriptor() const { return pipe_.program_end(); }
  /// Says that the program has it.
  void HandOver() { pipe_.HandOver(); }

  /// Takes an event; drops it if the program has left thousands unread.
  void Push(const Event& event);
  /// Waits for an event, unless the program's descriptor does not wait, and tells whose it is.
  ///
  /// @pre     the engine's lock is not held
  /// @errors  Errno: EAGAIN, EINTR
  uint32_t Wait() const;
  /// The oldest event of an id.
  std::optional<Event> Take(uint32_t id);
  /// All events of an id, which the program will not see here.
  std::vector<Event> Withdraw(uint32_t id);

 private:
  uverbs::EventPipe pipe_;
  /// A duplicate of the program's: who waits goes on waiting when that is closed, and its number may be
  /// reused.
  int waiting_end_;
  std::deque<Event> events_;
};

/// Descriptors of a File's pipe that this library holds for itself.
inline constexpr uint32_t kOwnFileEnds = uverbs::kOwnPipeEnds + 1;

}  // namespace softhca::ucma
