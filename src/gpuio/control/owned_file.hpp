#pragma once

#include <cstddef>
#include <string>

#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

/// Files of /dev/shm that go when their owner does, even if that is killed.
///
/// The owner holds a shared lock (flock) on its file. The kernel releases it with the last mapping and the
/// last descriptor of the owner and its forked children. A mark in the file's mode tells such files from
/// those of other programs.
namespace warpverbs::inline v0_2::gpuio {

inline constexpr char kBufferFilePrefix[] = "hf3fs-iov-", kSemaphoreFilePrefix[] = "sem.hf3fs-submit-";

/// Makes a file of this process that has no name yet. It stays this process's while a descriptor or a mapping
/// made by this one is left.
///
/// @param error  0 or an errno value
host::FileDescriptor MakeOwnFile(size_t bytes, int& error);

/// Gives a complete file its name in /dev/shm: a process that is killed earlier leaves nothing behind.
///
/// @return  0 or an errno value
int NameOwnFile(int file, const std::string& name);

/// Removes a file of /dev/shm whose owner has gone. Does nothing to files that MakeOwnFile() did not make,
/// and to those of other users unless this one is root.
void RemoveIfAbandoned(const std::string& name);

/// Removes all buffers, rings and semaphores of /dev/shm whose owners have gone, as RemoveIfAbandoned() does.
void RemoveAbandonedFiles();

}  // namespace warpverbs::inline v0_2::gpuio
