#include "gpuio/server/folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "gpuio/protocol/path.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

using protocol::Answer;

constexpr uint32_t kMaxAlignment = 4096;  // of direct I/O

/// The name by which the kernel opens a file once more, with other flags.
std::string NameOf(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

Attributes ToAttributes(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .bytes = static_cast<uint64_t>(status.st_size),
          .blocks = static_cast<uint64_t>(status.st_blocks),
          .mode = status.st_mode,
          .links = static_cast<uint32_t>(status.st_nlink),
          .uid = status.st_uid,
          .gid = status.st_gid,
          .accessed = status.st_atim,
          .modified = status.st_mtim,
          .changed = status.st_ctim};
}

/// The result of a call that returns -1 and errno.
Answer Result(int result) { return {result < 0 ? errno : 0, protocol::EmptyReply{}}; }

int AccessMode(uint32_t flags) {
  if ((flags & protocol::kOpenWrite) == 0) return O_RDONLY;
  return (flags & protocol::kOpenRead) != 0 ? O_RDWR : O_WRONLY;
}

/// An entry as getdents64(2) returns it.
struct RawEntry {
  uint64_t inode = 0;
  uint64_t next = 0;
  uint16_t bytes = 0;
  uint8_t type = 0;
};
constexpr size_t kNameOffset = 19;

}  // namespace

Folder::Folder(const std::string& path, bool read_only)
    : path_(path), read_only_(read_only), root_(open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {
  if (!root_)
    throw host::Error::FromErrno("export", path, errno,
                                 "Name a folder that exists and that this user may open");
  const host::FileDescriptor probe(Resolve("", O_PATH));
  if (!probe) {
    throw host::Error::FromErrno("resolve paths below", path, errno,
                                 "Use Linux 5.6 or later, whose openat2() confines clients to the folder");
  }
}

/// Opens a path below the root; -1 and errno.
int Folder::Resolve(const std::string& path, uint64_t flags, uint32_t mode) const {
  const open_how how{
      .flags = flags | O_CLOEXEC, .mode = mode, .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
  for (int tries = 0;; ++tries) {
    const auto fd = static_cast<int>(
        syscall(SYS_openat2, root_.get(), path.empty() ? "." : path.c_str(), &how, sizeof(how)));
    // EAGAIN: somebody renamed a folder meanwhile, and the kernel cannot tell whether the path left the root.
    if (fd >= 0 || ((errno != EAGAIN || tries == 100) && errno != EINTR)) {
      if (fd < 0 && errno == EXDEV) errno = EACCES;
      return fd;
    }
  }
}

Folder::Place Folder::Find(const std::string& path) const {
  auto [parent, name] = protocol::SplitPath(path);
  Place place{.folder = host::FileDescriptor(Resolve(parent, O_PATH | O_DIRECTORY)), .name = std::move(name)};
  if (!place.folder) place.error = errno;
  return place;
}

FolderFile Folder::Create(const protocol::OpenRequest& request, int access) const {
  // Both flags together create a regular file, or nothing.
  host::FileDescriptor fd(
      Resolve(request.path, static_cast<uint64_t>(access) | O_CREAT | O_EXCL, request.mode & 07777));
  if (!fd) return {.error = errno};
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return {.error = errno};
  return {0, std::move(fd), ToAttributes(status)};
}

// Looks at the file before opening it: opening a pipe would block, and opening a device may have effects.
FolderFile Folder::Open(const protocol::OpenRequest& request) const {
  using namespace protocol;
  const int access = AccessMode(request.flags);
  const bool creates = (request.flags & kOpenCreate) != 0;
  if (read_only_ && (creates || access != O_RDONLY)) {
    if (creates && access == O_RDONLY && (request.flags & kOpenExclusive) == 0) {
      OpenRequest existing = request;
      existing.flags &= ~uint32_t{kOpenCreate};
      FolderFile file = Open(existing);
      if (file.error == ENOENT) file.error = EROFS;
      return file;
    }
    return {.error = EROFS};
  }
  for (int tries = 0; tries < 100; ++tries) {
    if (creates) {
      FolderFile created = Create(request, access);
      if (created.error != EEXIST || (request.flags & kOpenExclusive) != 0) return created;
    }
    const bool follows = (request.flags & kOpenNoFollow) == 0;
    const host::FileDescriptor found(Resolve(request.path, O_PATH | (follows ? 0 : O_NOFOLLOW)));
    if (!found) {
      if (errno == ENOENT && creates) continue;  // somebody removed it meanwhile
      return {.error = errno};
    }
    struct stat status;
    if (fstat(found.get(), &status) != 0) return {.error = errno};
    if (S_ISLNK(status.st_mode)) return {.error = ELOOP};
    if ((request.flags & kOpenDirectory) != 0 && !S_ISDIR(status.st_mode)) return {.error = ENOTDIR};
    if (S_ISDIR(status.st_mode) && (access != O_RDONLY || creates)) return {.error = EISDIR};
    if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) return {.error = EACCES};
    const int flags = access | O_CLOEXEC | ((request.flags & kOpenTruncate) != 0 ? O_TRUNC : 0);
    host::FileDescriptor fd(open(NameOf(found.get()).c_str(), flags));
    if (!fd || fstat(fd.get(), &status) != 0) return {.error = errno};
    return {0, std::move(fd), ToAttributes(status)};
  }
  return {.error = ENOENT};
}

DirectIo Folder::OpenDirect(int fd) const {
  uint32_t alignment = kMaxAlignment;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    // The larger one serves all: they are powers of two.
    alignment = std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
    if (status.stx_dio_offset_align == 0 || alignment > kMaxAlignment) return {};
  }
#endif
  const int access = fcntl(fd, F_GETFL) & O_ACCMODE;
  DirectIo direct{host::FileDescriptor(open(NameOf(fd).c_str(), access | O_DIRECT | O_CLOEXEC)), alignment};
  return direct.fd ? std::move(direct) : DirectIo{};
}

std::string Folder::DescribeDirectIo() const {
  if (read_only_) return "direct I/O is tried file by file, because nothing can be created in this folder";
  const host::FileDescriptor probe(openat(root_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!probe) return "direct I/O is tried file by file, because this file system has no O_TMPFILE";
  const DirectIo direct = OpenDirect(probe.get());
  if (!direct.fd) return "buffered I/O, because this file system has no direct I/O";
  alignas(kMaxAlignment) std::array<char, kMaxAlignment> block{};
  if (pwrite(direct.fd.get(), block.data(), block.size(), 0) != static_cast<ssize_t>(block.size()) ||
      pread(direct.fd.get(), block.data(), block.size(), 0) != static_cast<ssize_t>(block.size()))
    return std::string("buffered I/O, because direct I/O fails here: ") + std::strerror(errno);
  return "direct I/O in multiples of " + std::to_string(direct.alignment) + " bytes, buffered at odd ends";
}

Answer Folder::GetAttributes(int fd) const {
  struct stat status;
  if (fstat(fd, &status) != 0) return {errno, {}};
  return {0, protocol::AttributesReply{ToAttributes(status)}};
}

Answer Folder::GetAttributes(const std::string& path) const {
  const host::FileDescriptor fd(Resolve(path, O_PATH | O_NOFOLLOW));
  return fd ? GetAttributes(fd.get()) : Answer{errno, {}};
}

// The file may be open by O_PATH only, so each call names it in the way that accepts that.
Answer Folder::ChangeAttributes(int fd, const AttributeChanges& changes) const {
  if (read_only_) return {EROFS, {}};
  if (changes.bytes && ftruncate(fd, static_cast<off_t>(*changes.bytes)) != 0) return {errno, {}};
  if ((changes.uid || changes.gid) &&
      fchownat(fd, "", changes.uid.value_or(static_cast<uid_t>(-1)),
               changes.gid.value_or(static_cast<gid_t>(-1)), AT_EMPTY_PATH) != 0)
    return {errno, {}};
  if (changes.mode && chmod(NameOf(fd).c_str(), *changes.mode) != 0) return {errno, {}};
  if (changes.accessed || changes.modified) {
    const timespec omitted{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    const std::array<timespec, 2> times{changes.accessed.value_or(omitted),
                                        changes.modified.value_or(omitted)};
    if (utimensat(fd, "", times.data(), AT_EMPTY_PATH) != 0) return {errno, {}};
  }
  return GetAttributes(fd);
}

Answer Folder::ChangeAttributes(const std::string& path, const AttributeChanges& changes) const {
  if (read_only_) return {EROFS, {}};
  if (changes.bytes) {
    const FolderFile file =
        Open({.path = path, .flags = protocol::kOpenWrite | protocol::kOpenNoFollow, .mode = 0});
    return file.error != 0 ? Answer{file.error, {}} : ChangeAttributes(file.fd.get(), changes);
  }
  const host::FileDescriptor fd(Resolve(path, O_PATH | O_NOFOLLOW));
  if (!fd) return {errno, {}};
  struct stat status;
  if (fstat(fd.get(), &status) != 0) return {errno, {}};
  if (S_ISLNK(status.st_mode) && changes.mode) return {EOPNOTSUPP, {}};
  return ChangeAttributes(fd.get(), changes);
}

Answer Folder::List(const protocol::ListRequest& request) const {
  const host::FileDescriptor fd(Resolve(request.path, O_RDONLY | O_DIRECTORY));
  if (!fd) return {errno, {}};
  if (request.start != 0 && lseek(fd.get(), static_cast<off_t>(request.start), SEEK_SET) < 0)
    return {errno, {}};
  // A reply has 16 bytes beside the name for each entry, and getdents64() at least 20: the reply fits a
  // frame.
  std::array<char, 40 << 10> bytes;
  const long size = syscall(SYS_getdents64, fd.get(), bytes.data(), bytes.size());
  if (size < 0) return {errno, {}};
  protocol::ListReply reply{.next = request.start, .end = size == 0};
  for (size_t at = 0; at < static_cast<size_t>(size);) {
    RawEntry entry;
    std::memcpy(&entry.inode, bytes.data() + at, 8);
    std::memcpy(&entry.next, bytes.data() + at + 8, 8);
    std::memcpy(&entry.bytes, bytes.data() + at + 16, 2);
    std::memcpy(&entry.type, bytes.data() + at + 18, 1);
    const char* const name = bytes.data() + at + kNameOffset;
    if (std::strcmp(name, ".") != 0 && std::strcmp(name, "..") != 0)
      reply.entries.push_back({name, entry.inode, static_cast<uint32_t>(DTTOIF(entry.type))});
    reply.next = entry.next;
    at += entry.bytes;
  }
  return {0, std::move(reply)};
}

Answer Folder::MakeDirectory(const protocol::MakeDirectoryRequest& request) const {
  if (read_only_) return {EROFS, {}};
  const Place place = Find(request.path);
  if (place.error != 0) return {place.error, {}};
  return Result(mkdirat(place.folder.get(), place.name.c_str(), request.mode & 07777));
}

Answer Folder::Remove(const protocol::RemoveRequest& request) const {
  if (read_only_) return {EROFS, {}};
  const Place place = Find(request.path);
  if (place.error != 0) return {place.error, {}};
  return Result(unlinkat(place.folder.get(), place.name.c_str(), request.directory ? AT_REMOVEDIR : 0));
}

Answer Folder::Rename(const protocol::RenameRequest& request) const {
  if (read_only_) return {EROFS, {}};
  const Place from = Find(request.from), to = Find(request.to);
  if (from.error != 0 || to.error != 0) return {from.error != 0 ? from.error : to.error, {}};
  return Result(
      renameat2(from.folder.get(), from.name.c_str(), to.folder.get(), to.name.c_str(), request.flags));
}

Answer Folder::HardLink(const protocol::HardLinkRequest& request) const {
  if (read_only_) return {EROFS, {}};
  const Place from = Find(request.from), to = Find(request.to);
  if (from.error != 0 || to.error != 0) return {from.error != 0 ? from.error : to.error, {}};
  return Result(linkat(from.folder.get(), from.name.c_str(), to.folder.get(), to.name.c_str(), 0));
}

Answer Folder::ReadLink(const protocol::ReadLinkRequest& request) const {
  const host::FileDescriptor fd(Resolve(request.path, O_PATH | O_NOFOLLOW));
  if (!fd) return {errno, {}};
  std::array<char, protocol::kMaxPathBytes + 1> target;
  const ssize_t size = readlinkat(fd.get(), "", target.data(), target.size());
  // Linux says ENOENT of an empty path whose file is no symlink.
  if (size < 0) return {errno == ENOENT ? EINVAL : errno, {}};
  return {0, protocol::ReadLinkReply{std::string(target.data(), static_cast<size_t>(size))}};
}

Answer Folder::GetSpace() const {
  struct statvfs status;
  if (fstatvfs(root_.get(), &status) != 0) return {errno, {}};
  return {0, protocol::SpaceReply{{.block_bytes = status.f_frsize,
                                   .blocks = status.f_blocks,
                                   .free_blocks = status.f_bfree,
                                   .available_blocks = status.f_bavail,
                                   .files = status.f_files,
                                   .free_files = status.f_ffree,
                                   .longest_name = static_cast<uint32_t>(status.f_namemax)}}};
}

}  // namespace warpverbs::inline v0_2::gpuio
