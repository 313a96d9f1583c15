#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "warpverbs/device/status.hpp"
#include "warpverbs/host/endpoint_config.hpp"
#include "warpverbs/host/endpoint_info.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::host {

enum class EventKind : uint8_t {
  kPortDown,
  kPortUp,
  kPortChanged,        ///< the port's address or subnet changed: connections may have to be made again
  kDeviceFailed,       ///< nothing on the device works until it is opened again
  kQueueFailed,        ///< the firmware moved a queue to its error state
  kCompletionsFailed,  ///< a completion queue stopped; only a new one works
  kOther,
};

/// An asynchronous event of a device.
struct WARPVERBS_EXPORT Event {
  EventKind kind = EventKind::kOther;
  std::string device{};
  uint8_t port = 0;    ///< from 1; 0: the event concerns no single port
  uint32_t qpn = 0;    ///< 0: the event concerns no single queue pair
  std::string name{};  ///< name in the verbs or the firmware's manual: "IBV_EVENT_PORT_ERR"

  /// Describes what happened and what to do about it, in sentences.
  std::string Describe() const;
};

/// Why a send or a receive queue failed.
struct WARPVERBS_EXPORT QueueError {
  uint32_t qpn = 0;
  std::optional<EndpointInfo> peer{};  ///< empty: the queue pair was not connected
  CqMode cq_mode = CqMode::kRing;
  bool receiving = false;  ///< a receive failed; opcode is then meaningless
  /// mlx5::Syndrome; 0: no completion has failed: an event, a poster gave up, or `stopped`
  uint8_t syndrome = 0;
  uint8_t vendor_syndrome = 0;
  uint8_t opcode = 0;            ///< mlx5::WqeOpcode of the failed WQE
  uint16_t wqe_index = 0;        ///< index of the failed WQE, modulo 2^16
  std::optional<Event> event{};  ///< event that aborted the endpoint's waits, and may be the cause
  bool disconnected = false;     ///< Disconnect() was called: what it failed is only flushed
  /// The queue pair is in its error state, and neither a completion nor an event says why: usually it refused
  /// a request of the peer.
  bool stopped = false;

  /// Describes which operation to which peer failed and why, then what to check.
  std::string Describe() const;
};

/// Describes the answer of a data-path call: "timeout: the deadline passed".
WARPVERBS_EXPORT std::string Describe(const device::Status& status);

/// Names the operation of a WQE: "RDMA write". Never null.
///
/// @param opcode  mlx5::WqeOpcode
WARPVERBS_EXPORT const char* OperationName(uint8_t opcode);

/// Returns "(syndrome 0x13, vendor syndrome 0x88)".
WARPVERBS_EXPORT std::string DescribeSyndrome(uint8_t syndrome, uint8_t vendor_syndrome);

}  // namespace warpverbs::inline v0_2::host
