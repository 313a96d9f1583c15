#pragma once

#include <cstdint>
#include <string>

namespace warpverbs::host {

enum class EventKind : uint8_t {
  kPortDown,
  kPortUp,
  kPortChanged,        ///< an address or the subnet of the port: connections may have to be made anew
  kDeviceFailed,       ///< nothing on it will work until it is opened again
  kQueueFailed,        ///< the firmware has moved a queue to its error state
  kCompletionsFailed,  ///< a completion queue takes no more; only a new one does
  kOther,
};

/// What a device said unasked.
struct Event {
  EventKind kind = EventKind::kOther;
  std::string device{};
  uint8_t port = 0;    ///< from 1; 0: no port's
  uint32_t qpn = 0;    ///< 0: no queue pair's
  std::string name{};  ///< as the verbs or the firmware's manual call it: "IBV_EVENT_PORT_ERR"

  /// What happened, where, and what to do about it, in sentences.
  std::string What() const;
};

/// @param type  an ibv_event_type
/// @param port  counts where the event is one of a port
Event VerbsEvent(const std::string& device, int type, uint8_t port);

/// An event of the verbs that is a port's.
bool IsPortEvent(int type);

// Events of the firmware that an endpoint's objects may have.
// @source  public PRM, "Event types": 04h CQ error, 05h, 10h and 11h errors of a work queue
inline constexpr uint16_t kCqErrorEvent = 0x04;
inline constexpr uint16_t kWqCatastrophicEvent = 0x05;
inline constexpr uint16_t kWqInvalidRequestEvent = 0x10;
inline constexpr uint16_t kWqAccessEvent = 0x11;

Event FirmwareEvent(const std::string& device, uint32_t qpn, uint8_t type);

}  // namespace warpverbs::host
