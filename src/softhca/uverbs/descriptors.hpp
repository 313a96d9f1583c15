#pragma once

#include <sys/types.h>

#include <compare>
#include <cstdint>

/// Tells the descriptors that this library has handed out from all others of the program.
namespace softhca::uverbs {

/// Identifies an open file. Descriptor numbers do not: programs duplicate, close and reuse them.
struct FileId {
  dev_t device;
  ino_t inode;
  friend auto operator<=>(const FileId&, const FileId&) = default;  // NOLINT(modernize-use-nullptr)
};

/// @return  zeros if the descriptor is not open
FileId Identify(int fd);

/// Makes a file that stands in for a device: room for the program's mappings, as much as the limit on file
/// sizes allows (RLIMIT_FSIZE). Holes take no memory.
///
/// @param flags  O_CLOEXEC, or 0
/// @return       its descriptor
/// @errors       Errno: EMFILE, ENOMEM
int MakeDeviceFile(int flags);

/// Returns whether a file is probably one of MakeDeviceFile(), by its mode. Takes no lock.
bool IsDeviceFile(mode_t mode);

/// Returns the size of a file in bytes; 0 if the descriptor is not open.
uint64_t FileBytes(int fd);

/// Returns whether a descriptor was handed out by this library or recognised as a duplicate. Takes no lock.
bool MayBeOurs(int fd);
/// Remembers a descriptor that is handed to the program.
void AddHint(int fd);
/// Forgets a descriptor that is about to be closed.
void RemoveHint(int fd);

/// Closes a descriptor that the program has never had.
///
/// Calls close() by its public name, hook included: a sanitizer that saw the file being opened must see it
/// closed, or it takes the next user of the number for another user of this file.
void CloseOwn(int fd);

}  // namespace softhca::uverbs
