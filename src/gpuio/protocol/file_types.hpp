#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The attributes of a file, as stat(2) returns them.
struct Attributes {
  uint64_t device = 0;  ///< file system of the server, within which `inode` names one file
  uint64_t inode = 0, bytes = 0, blocks = 0;  ///< blocks of 512 bytes
  uint32_t mode = 0, links = 0, uid = 0, gid = 0;
  timespec accessed{}, modified{}, changed{};
};

/// A part of a file or of a buffer, in bytes.
struct Range {
  uint64_t offset = 0, bytes = 0;

  friend bool operator==(const Range&, const Range&) = default;
};

/// How a server treats the holes of a file that is read.
enum class Holes : uint8_t {
  kList,         ///< lists them, and leaves the zeros to the reader; sends zeros for a hole that others than
                 ///< its clients made within the last second
  kSend,         ///< sends zeros, for memory that the reader cannot fill
  kListExactly,  ///< lists them, and asks the file system for them each time
};

struct ReadResult {
  int64_t result = 0;          ///< bytes up to the end of the file, or -errno
  std::vector<Range> holes{};  ///< ranges of the target that the server did not write and that read as zeros
};

struct DirectoryEntry {
  std::string name{};
  uint64_t inode = 0;
  uint32_t type = 0;  ///< the bits S_IFMT of a mode

  friend bool operator==(const DirectoryEntry&, const DirectoryEntry&) = default;
};

/// Attributes to change; those without a value stay.
struct AttributeChanges {
  std::optional<uint64_t> bytes{};
  std::optional<uint32_t> mode{}, uid{}, gid{};
  std::optional<timespec> accessed{}, modified{};  ///< tv_nsec UTIME_NOW: the server's time
};

/// The space of the server's file system, as statvfs(3) returns it.
struct Space {
  uint64_t block_bytes = 0, blocks = 0, free_blocks = 0, available_blocks = 0, files = 0, free_files = 0;
  uint32_t longest_name = 0;
};

}  // namespace warpverbs::inline v0_2::gpuio
