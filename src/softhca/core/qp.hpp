#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "core/config.hpp"
#include "core/posted_ring.hpp"
#include "core/receive_queue.hpp"
#include "warpverbs/mlx5/doorbell.hpp"
#include "warpverbs/mlx5/syndrome.hpp"

namespace softhca {

/// A network's state for one queue pair: messages in flight, packets expected. Destroyed when the queue pair
/// is reset.
class Channel {
 public:
  Channel() = default;
  virtual ~Channel() = default;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
};

/// Asynchronous events, numbered as in the mlx5 event queue.
enum class QpEvent : uint8_t {
  kCatastrophic = 0x05,
  kInvalidRequest = 0x10,
  kAccessError = 0x11,
  kLastWqeReached = 0x13,
  kDctDrained = 0x1c,
  kDctKeyViolation = 0x1d
};

/// Returns whether a service's requests are acknowledged.
constexpr bool IsReliable(mlx5::ServiceType service) {
  return service == mlx5::ServiceType::kRc || service == mlx5::ServiceType::kDci;
}

/// Returns whether the work queue entry names the destination, not the queue pair.
constexpr bool IsAddressedByEntry(mlx5::ServiceType service) {
  return service == mlx5::ServiceType::kUd || service == mlx5::ServiceType::kDci;
}

/// A queue pair's part in XRC. Everything else is as with RC, which is its service.
enum class XrcRole : uint8_t {
  kNone,
  kInitiator,  ///< its requests name a shared receive queue; it gets none
  kTarget,     ///< receives into the queue that a request names, and sends none
};

struct QpConfig {
  mlx5::ServiceType service = mlx5::ServiceType::kRc;
  XrcRole xrc = XrcRole::kNone;
  uint32_t xrcd = 0;  ///< XRC domain of a target, whose protection domain is that of its latest queue
  uint32_t pdn = 0;
  uint32_t uar_page = 0;
  uint32_t user_index = 0;
  uint32_t cqn_send = 0;
  uint32_t cqn_receive = 0;
  uint32_t srqn = 0;  ///< 0: none
  uint8_t* send_ring = nullptr;
  uint32_t send_depth = 0;  ///< in WQEBBs, a power of two; 0: none
  mlx5::Be32* send_dbr = nullptr;
  bool hears_itself = true;       ///< gets its own datagrams to multicast groups that it has joined
  bool cd_master = false;         ///< may execute WQEs that wait for completion queues
  uint64_t dc_access_key = 0;     ///< key that a DC target demands of its initiators
  ReceiveQueueConfig receive{};   ///< depth 0: none
  std::vector<uint32_t> umems{};  ///< umems behind the pointers above, if created by DEVX
  std::function<void(QpEvent)> on_event{};
};

/// Path from a queue pair to its peer.
struct AddressPath {
  bool grh = false;
  Gid remote_gid{};
  uint16_t remote_lid = 0;
  Mac remote_mac{};
  uint8_t local_gid_index = 0;
  uint8_t hop_limit = 0;
  uint8_t traffic_class = 0;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
  uint16_t udp_source_port = 0;

  friend bool operator==(const AddressPath&, const AddressPath&) = default;
};

/// Attributes that state transitions set.
struct QpAttributes {
  uint32_t access = 0;  ///< Access bits that peers may use
  uint16_t pkey_index = 0;
  uint8_t port = 0;
  AddressPath path;
  mlx5::Mtu mtu = mlx5::Mtu::k256;
  uint8_t log_max_message = 0;  ///< log2 of the longest message in bytes; set by DEVX only
  uint32_t remote_qpn = 0;
  uint32_t receive_psn = 0;
  uint32_t send_psn = 0;
  uint8_t max_reads_in = 0;   ///< the peer's reads and atomics in flight
  uint8_t max_reads_out = 0;  ///< own reads and atomics in flight
  uint8_t min_rnr_timer = 0;  ///< IBTA code, 5 bits
  uint8_t ack_timeout = 0;    ///< 4.096 us * 2^n; 0: forever
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;  ///< 7: forever
  uint32_t qkey = 0;      ///< for datagrams only
};

/// Attributes that one transition sets; the others stay.
struct QpChange {
  std::optional<uint32_t> access{};
  std::optional<uint16_t> pkey_index{};
  std::optional<uint8_t> port{};
  std::optional<AddressPath> path{};
  std::optional<mlx5::Mtu> mtu{};
  std::optional<uint32_t> remote_qpn{}, receive_psn{}, send_psn{};
  std::optional<uint8_t> max_reads_in{}, max_reads_out{}, min_rnr_timer{}, ack_timeout{}, retry_count{},
      rnr_retry{}, log_max_message{};
  std::optional<uint32_t> qkey{};
};

class CompletionQueue;
class Hca;
struct SharedReceiveQueue;

/// What only a DC target has. A target has no send queue; each initiator that connects to it gets a responder
/// of its own, see DcTargetChannel.
struct DcTarget {
  uint32_t key_violations = 0;  ///< requests with a wrong access key
  bool drained = false;         ///< accepts no requests any more
};

/// A queue pair: its state, and the progress of its queues. Hca changes the state; its requester and
/// responder, of messages or of packets, advance the indices.
struct QueuePair {
  Hca* hca = nullptr;
  uint32_t qpn = 0;
  QpConfig config;
  mlx5::QpState state = mlx5::QpState::kReset;
  QpAttributes attributes;
  PostedRing sends;
  ReceiveQueue own_receives{{}};
  ReceiveQueue* receives = nullptr;   ///< own_receives or the shared queue's receives
  SharedReceiveQueue* srq = nullptr;  ///< null: none. An XRC target's changes, see Serve()

  /// Receive taken for the message that is arriving.
  std::optional<ReceiveWqe> open_receive;
  // Queues are destroyed after the queue pairs that use them. Null if the queue pair cannot send or receive.
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;

  uint32_t send_index = 0;        ///< next WQE to execute, in WQEBBs, modulo 2^16
  bool doorbell_pending = false;  ///< rung since the send queue was last empty
  uint32_t next_send_psn = 0;
  uint32_t next_receive_psn = 0;

  /// Retry state of the WQE at send_index, which is not acknowledged yet.
  struct Retry {
    uint64_t at_ns = 0;  ///< time of the next attempt
    uint8_t timeouts = 0;
    uint8_t rnr_retries = 0;
    bool now = false;  ///< retry at once: more was posted, and the peer may be ready now
  };
  Retry retry;

  /// Time of the next check for receives to flush in device memory.
  uint64_t next_receive_check_ns = 0;

  /// Failure injected into a WQE in place of its execution.
  struct InjectedFailure {
    mlx5::Syndrome syndrome = mlx5::Syndrome::kNone;
    uint8_t vendor_syndrome = 0;
  };
  std::set<Gid> groups;                                   ///< multicast groups whose datagrams it receives
  std::map<uint16_t, InjectedFailure> injected_failures;  ///< failures by WQE index
  bool paused = false;                                    ///< whether a test has paused the send queue

  /// Owners that have opened an XRC target besides the one that created it, and their handlers of events.
  std::map<const void*, std::function<void(QpEvent)>> sharers;
  bool left = false;  ///< whether the owner that created it has closed it, and only sharers are left

  DcTarget dc_target;
  bool serves_dc_target = false;  ///< one of a DC target's responders: has its number, and is in no table

  std::unique_ptr<Channel> channel;  ///< null: the network needs no state for it
};

/// Checks a transition against the state machine and the attributes it requires, and applies it.
///
/// @errors  CommandError: kBadQpState for a transition that does not exist, kBadParameter for a missing or
///          impossible attribute
void ModifyQp(QueuePair& qp, mlx5::QpState to, const QpChange& change);

/// Returns whether the queue pair executes its peer's requests.
inline bool Listens(const QueuePair& qp) {
  return qp.state == mlx5::QpState::kRtr || qp.state == mlx5::QpState::kRts;
}

/// Returns the name for messages to users: "RTS".
const char* ToString(mlx5::QpState state);

/// Reports an event to all that have the queue pair open.
void Raise(const QueuePair& qp, QpEvent event);

/// Moves a queue pair to the error state; everything posted to it will be flushed.
void EnterError(QueuePair& qp);

}  // namespace softhca
