#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>

#include "core/engine.hpp"
#include "uverbs/identity.hpp"
#include "wire/wire_network.hpp"

/// What the hooks need to know, and what they hand over, of the devices in this process.
namespace softhca::uverbs {

/// A file, whatever descriptors it has: numbers are reused, and closed behind our back.
struct FileId {
  dev_t device;
  ino_t inode;
  friend auto operator<=>(const FileId&, const FileId&) = default;  // NOLINT(modernize-use-nullptr)
};

FileId Identify(int fd);

/// Size of the files that stand in for devices: room for the program's mappings, whose holes take no memory.
inline constexpr off_t kDeviceFileBytes = off_t{1} << 40;

/// Whether a descriptor was handed out by this library, or recognised as a duplicate. Takes no lock.
bool MayBeOurs(int fd);
/// Remembers a descriptor that is handed to the program.
void AddHint(int fd);

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

/// What connects it to its peers, under the engine's lock; null as long as no device was opened.
WireNetwork* ProcessNetwork();

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

/// Closes a descriptor that the program has never had.
///
/// By the name that programs use, not past it: a sanitizer that saw the file made must see its end, or it
/// takes whoever is given the number next for another user of this file.
void CloseOwn(int fd);

/// Closes a descriptor; with the last one of a device go the objects that were made through it.
int CloseOurs(int fd);

}  // namespace softhca::uverbs
