#pragma once

#include <cstdint>

#include "core/engine.hpp"
#include "core/identity.hpp"
#include "setup/settings.hpp"
#include "uverbs/descriptors.hpp"

/// The devices of this process, as the hooks use them.
namespace softhca::preload {

/// Returns the launcher's settings; null in a process that softhca did not launch.
const Settings* LaunchSettings();

/// Returns the settings with addresses and a tree of this process's own. Claims both on the first call, when
/// the process first looks for devices; later calls take no lock and allocate nothing.
///
/// If no addresses are free it prints so and returns the launcher's settings.
const Settings* OwnSettings();

/// Opens a device or the connection manager. The first call in a process, or in a forked child, makes the
/// devices.
///
/// @return  a descriptor; -1 with errno: ENOENT if the device does not exist
int OpenNode(const identity::DeviceNode& node, int flags);

/// Returns the hardware of this process; null until a device is opened.
Engine* ProcessEngine();

/// Sends an asynchronous event to every context of a device.
///
/// @param type  an ibv_event_type of a port or of the device
/// @param port  0 for an event of the device
void SendAsyncEvent(uint32_t device, uint32_t type, uint8_t port);

/// Returns the device that a file from OpenNode() stands for.
identity::DeviceNode NodeOfFile(uverbs::FileId file);

inline constexpr int kNotOurs = -1;

/// Executes an ioctl command.
///
/// @return  0, an errno, or kNotOurs
int RunIoctl(int fd, void* header);

/// Executes a command that is written to the connection manager.
///
/// @return  0, an errno, or kNotOurs
int RunWrite(int fd, const void* data, size_t bytes);

/// Closes a descriptor. The last one of a device destroys the objects that were made through it.
int CloseOurs(int fd);

}  // namespace softhca::preload
