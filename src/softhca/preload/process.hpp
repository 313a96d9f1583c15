#pragma once

#include <cstdint>

#include "core/engine.hpp"
#include "core/identity.hpp"
#include "uverbs/descriptors.hpp"

/// What the hooks need to know, and what they hand over, of the devices in this process.
namespace softhca::uverbs {

/// Opens a device or the connection manager; the first time in a process, and in each forked child, this
/// makes the devices.
///
/// @return  a descriptor; -1 with errno, ENOENT if there is no such device
int OpenNode(const identity::DeviceNode& node, int flags);

/// The hardware of this process; null as long as no device was opened.
Engine* ProcessEngine();

/// Announces an event to whoever of this process has a device open.
///
/// @param type  an ibv_event_type that is a port's or the device's
/// @param port  0 for an event of the device
void SendAsyncEvent(uint32_t device, uint32_t type, uint8_t port);

/// The device that a descriptor from OpenNode() is for.
identity::DeviceNode NodeOfFile(FileId file);

inline constexpr int kNotOurs = -1;

/// Executes a command.
///
/// @return  0, an errno, or kNotOurs
int RunIoctl(int fd, void* header);

/// Executes what is written to the connection manager.
///
/// @return  0, an errno, or kNotOurs
int RunWrite(int fd, const void* data, size_t bytes);

/// Closes a descriptor; with the last one of a device go the objects that were made through it.
int CloseOurs(int fd);

}  // namespace softhca::uverbs
