#pragma once

#include <cstdint>
#include <string>

#include "gpuio/protocol/messages.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A file of a folder.
struct FolderFile {
  int error = 0;  ///< an errno value; 0: the rest is valid
  host::FileDescriptor fd{};
  Attributes attributes{};
};

/// A file for direct I/O, and its requirements.
struct DirectIo {
  host::FileDescriptor fd{};  ///< a file opened with O_DIRECT; none: the file system has no direct I/O
  uint32_t alignment = 0;     ///< alignment of offsets, lengths and memory, in bytes
};

/// A folder whose files clients may use, and nothing outside.
///
/// Paths are resolved below the folder: a symlink that leaves it, or one with an absolute target, is EACCES.
/// Only regular files and folders are opened. All calls block, and are thread-safe.
///
/// @source  openat2(2), RESOLVE_BENEATH and RESOLVE_NO_MAGICLINKS
class Folder {
 public:
  /// @param read_only  whether all that changes the folder is EROFS
  /// @errors  host::Error: the folder does not exist, or the kernel has no openat2()
  Folder(const std::string& path, bool read_only);

  FolderFile Open(const protocol::OpenRequest& request) const;

  /// Opens a file for direct I/O once more.
  ///
  /// @param fd  from Open()
  DirectIo OpenDirect(int fd) const;

  /// Says in words whether the folder's file system has direct I/O, by trying it.
  std::string DescribeDirectIo() const;

  protocol::Answer GetAttributes(int fd) const;
  protocol::Answer GetAttributes(const std::string& path) const;
  protocol::Answer ChangeAttributes(int fd, const AttributeChanges& changes) const;
  protocol::Answer ChangeAttributes(const std::string& path, const AttributeChanges& changes) const;
  protocol::Answer List(const protocol::ListRequest& request) const;
  protocol::Answer MakeDirectory(const protocol::MakeDirectoryRequest& request) const;
  protocol::Answer Remove(const protocol::RemoveRequest& request) const;
  protocol::Answer Rename(const protocol::RenameRequest& request) const;
  protocol::Answer HardLink(const protocol::HardLinkRequest& request) const;
  protocol::Answer ReadLink(const protocol::ReadLinkRequest& request) const;
  protocol::Answer GetSpace() const;

  bool read_only() const { return read_only_; }
  const std::string& path() const { return path_; }

 private:
  /// A folder, and a name in it; -errno in place of the folder.
  struct Place {
    host::FileDescriptor folder{};
    int error = 0;
    std::string name{};
  };

  int Resolve(const std::string& path, uint64_t flags, uint32_t mode = 0) const;
  Place Find(const std::string& path) const;
  FolderFile Create(const protocol::OpenRequest& request, int access) const;

  std::string path_;
  bool read_only_;
  host::FileDescriptor root_;
};

}  // namespace warpverbs::inline v0_2::gpuio
