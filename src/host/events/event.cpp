#include "events/event.hpp"

#include <infiniband/verbs.h>

namespace warpverbs::inline v0_2::host {
namespace {

constexpr char kReconnect[] = "call Reset() and Connect() on both sides";

EventKind KindOf(int type) {
  switch (type) {
    case IBV_EVENT_PORT_ERR:
      return EventKind::kPortDown;
    case IBV_EVENT_PORT_ACTIVE:
      return EventKind::kPortUp;
    case IBV_EVENT_DEVICE_FATAL:
      return EventKind::kDeviceFailed;
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
      return EventKind::kPortChanged;
    default:
      return EventKind::kOther;
  }
}

const char* NameOf(int type) {
  switch (type) {
    case IBV_EVENT_PORT_ERR:
      return "IBV_EVENT_PORT_ERR";
    case IBV_EVENT_PORT_ACTIVE:
      return "IBV_EVENT_PORT_ACTIVE";
    case IBV_EVENT_DEVICE_FATAL:
      return "IBV_EVENT_DEVICE_FATAL";
    case IBV_EVENT_GID_CHANGE:
      return "IBV_EVENT_GID_CHANGE";
    case IBV_EVENT_LID_CHANGE:
      return "IBV_EVENT_LID_CHANGE";
    case IBV_EVENT_PKEY_CHANGE:
      return "IBV_EVENT_PKEY_CHANGE";
    case IBV_EVENT_SM_CHANGE:
      return "IBV_EVENT_SM_CHANGE";
    case IBV_EVENT_CLIENT_REREGISTER:
      return "IBV_EVENT_CLIENT_REREGISTER";
    default:
      return ibv_event_type_str(static_cast<ibv_event_type>(type));
  }
}

const char* NameOfFirmwareEvent(uint8_t type) {
  switch (type) {
    case kCqErrorEvent:
      return "CQ error, firmware event 0x04";
    case kWqCatastrophicEvent:
      return "work queue catastrophic error, firmware event 0x05";
    case kWqInvalidRequestEvent:
      return "invalid request, firmware event 0x10";
    case kWqAccessEvent:
      return "access error, firmware event 0x11";
    default:
      return "firmware event";
  }
}

std::string InParentheses(const std::string& name) { return " (" + name + "). "; }

}  // namespace

std::string Event::Describe() const {
  const std::string its_port = "Port " + std::to_string(port) + " of " + device;
  switch (kind) {
    case EventKind::kPortDown:
      return its_port + " lost its link" + InParentheses(name) +
             "Check the cable and the switch; once the port is active again, " + kReconnect + ".";
    case EventKind::kPortUp:
      return its_port + " is active" + InParentheses(name) +
             "Call Reset() on endpoints that were aborted meanwhile.";
    case EventKind::kPortChanged:
      return its_port + " changed its address or subnet" + InParentheses(name) +
             "If the peer is unreachable, create the endpoint again.";
    case EventKind::kDeviceFailed:
      return "The device " + device + " failed" + InParentheses(name) +
             "Check the kernel log (dmesg); its resources are lost: open the device again.";
    case EventKind::kQueueFailed:
      return "The firmware of " + device + " stopped QP " + std::to_string(qpn) + InParentheses(name) +
             "Check what the peer sent; then " + kReconnect + ".";
    case EventKind::kCompletionsFailed:
      return "The firmware of " + device + " stopped a completion queue of QP " + std::to_string(qpn) +
             InParentheses(name) +
             "Reset() cannot repair it: create the endpoint again, and its SharedCompletions if it has them.";
    case EventKind::kOther:
      break;
  }
  return "The device " + device + " reported an event" + InParentheses(name) + "Nothing was done about it.";
}

bool IsPortEvent(int type) {
  const EventKind kind = KindOf(type);
  return kind == EventKind::kPortDown || kind == EventKind::kPortUp || kind == EventKind::kPortChanged;
}

Event VerbsEvent(const std::string& device, int type, uint8_t port) {
  return {.kind = KindOf(type),
          .device = device,
          .port = IsPortEvent(type) ? port : uint8_t{0},
          .name = NameOf(type)};
}

Event FirmwareEvent(const std::string& device, uint32_t qpn, uint8_t type) {
  const EventKind kind = type == kCqErrorEvent ? EventKind::kCompletionsFailed : EventKind::kQueueFailed;
  return {.kind = kind, .device = device, .qpn = qpn, .name = NameOfFirmwareEvent(type)};
}

}  // namespace warpverbs::inline v0_2::host
