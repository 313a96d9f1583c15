#pragma once

#include <cstdint>
#include <string>

#include "warpverbs/host/queue_error.hpp"

namespace warpverbs::inline v0_2::host {

/// @param type  an ibv_event_type
/// @param port  used only if the event concerns a port
Event VerbsEvent(const std::string& device, int type, uint8_t port);

/// Returns whether a verbs event concerns a port.
bool IsPortEvent(int type);

// Firmware events of an endpoint's objects.
// @source  public PRM, "Event types": 04h CQ error, 05h, 10h and 11h errors of a work queue
inline constexpr uint16_t kCqErrorEvent = 0x04;
inline constexpr uint16_t kWqCatastrophicEvent = 0x05;
inline constexpr uint16_t kWqInvalidRequestEvent = 0x10;
inline constexpr uint16_t kWqAccessEvent = 0x11;

Event FirmwareEvent(const std::string& device, uint32_t qpn, uint8_t type);

}  // namespace warpverbs::inline v0_2::host
