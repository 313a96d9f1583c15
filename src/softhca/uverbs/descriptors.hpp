#pragma once

#include <sys/types.h>

#include <compare>

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

/// Size of the files that stand in for devices: room for the program's mappings. Holes take no memory.
inline constexpr off_t kDeviceFileBytes = off_t{1} << 40;

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
