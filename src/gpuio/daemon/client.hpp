#pragma once

#include <sys/types.h>

#include <asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "gpuio/daemon/attached_buffer.hpp"
#include "gpuio/daemon/guarded_mapping.hpp"
#include "gpuio/ring/layout.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file that an application has registered.
struct AttachedFile {
  uint64_t file = 0;  ///< number that the FileStore gave it
  std::string path{};
  uint64_t device = 0;  ///< file system of the server
  uint64_t references = 0;
};

/// A link of an application that the daemon has attached.
struct AttachedName {
  std::string target{};
  int ring_entries = 0;  ///< 0: a buffer
  // The file of /dev/shm, which goes with an application that dies; 0: memory of a GPU.
  dev_t device = 0;
  ino_t inode = 0;
};

/// The connection of an application, and what the application has registered by it.
struct Client {
  /// A file by its inode, and whether it was opened for reading and for writing.
  using FileKey = std::tuple<uint64_t, bool, bool>;

  Client(asio::posix::stream_descriptor connection, uid_t user_id, pid_t process_id)
      : socket(std::move(connection)), user(user_id), process(process_id) {}

  /// Finds a registered file.
  ///
  /// @return  false: it is not registered for this
  bool Find(uint64_t inode, bool for_read, uint64_t& file) const {
    for (const bool other : {false, true}) {
      const auto found = files.find(for_read ? FileKey(inode, true, other) : FileKey(inode, other, true));
      if (found == files.end()) continue;
      file = found->second.file;
      return true;
    }
    return false;
  }

  /// Says whether a file of another file system has this inode: rings name files by nothing else.
  bool HasOtherFile(uint64_t inode, uint64_t device) const {
    const auto first = files.lower_bound(FileKey(inode, false, false));
    return first != files.end() && std::get<0>(first->first) == inode && first->second.device != device;
  }

  /// Says whether a file of the application may be mapped: the daemon's mappings, and its memory for rings,
  /// are shared by all.
  ///
  /// @param entries  of the ring; 0: a buffer
  bool HasRoom(int entries) const {
    constexpr size_t kMaxMappings = GuardedMapping::kMaxCount / 8;
    size_t mappings = 0;
    int64_t all_entries = entries;
    for (const auto& [name, one] : attached) {
      mappings += one.inode != 0 ? 1 : 0;
      all_entries += one.ring_entries;
    }
    return mappings < kMaxMappings && all_entries <= RingMemory::kMaxEntries;
  }

  asio::posix::stream_descriptor socket;
  const uid_t user;
  const pid_t process;
  std::map<std::string, PublishedMemory> published{};  ///< keys are names of links
  std::map<std::string, AttachedName> attached{};      ///< keys are names of its buffers and rings
  std::map<FileKey, AttachedFile> files{};
};

}  // namespace warpverbs::inline v0_2::gpuio
