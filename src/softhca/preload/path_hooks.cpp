#include <sys/sysmacros.h>

#include <cstdarg>
#include <cstring>

#include "core/identity.hpp"
#include "preload/process.hpp"
#include "preload/real.hpp"
#include "preload/redirect.hpp"

// Hooks of the C library's functions that take paths. These functions call each other without passing a hook,
// so all of them are here.

namespace softhca::preload {
namespace {

template <class Status>
void ShowCharacterDevice(Status* status, const identity::DeviceNode& node) {
  status->st_mode = S_IFCHR | 0666;
  status->st_rdev = makedev(node.major, node.minor);
  status->st_size = 0;
}

/// Runs a stat function on a path. Shows files that stand in for device nodes as character devices.
template <class Status, class Look>
int StatPath(const char* path, Status* status, Look look) {
  const RedirectedPath redirected(path);
  const int result = look(static_cast<const char*>(redirected));
  if (result == 0 && redirected.node()) ShowCharacterDevice(status, redirected.node());
  return result;
}

template <class Status>
int StatFile(int fd, int result, Status* status) {
  if (result == 0 &&
      (uverbs::IsDeviceFile(status->st_mode) || (S_ISFIFO(status->st_mode) && uverbs::MayBeOurs(fd)))) {
    const identity::DeviceNode node = NodeOfFile({status->st_dev, status->st_ino});
    if (node) ShowCharacterDevice(status, node);
  }
  return result;
}

int OpenPath(int folder, const char* path, int flags, mode_t mode) {
  const RedirectedPath redirected(path);
  if (redirected.node()) return OpenNode(redirected.node(), flags);
  return Real().openat(folder, redirected, flags, mode);
}

/// Returns the mode argument of an open() that may create a file.
mode_t Mode(int flags, va_list arguments) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace softhca::preload

using namespace softhca::preload;  // NOLINT(google-build-using-namespace): hooks have the C library's names

extern "C" {
#pragma GCC visibility push(default)

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = Mode(flags, arguments);
  va_end(arguments);
  return OpenPath(AT_FDCWD, path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = Mode(flags, arguments);
  va_end(arguments);
  return OpenPath(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = Mode(flags, arguments);
  va_end(arguments);
  return OpenPath(folder, path, flags, mode);
}

int openat64(int folder, const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = Mode(flags, arguments);
  va_end(arguments);
  return OpenPath(folder, path, flags | O_LARGEFILE, mode);
}

int __open_2(const char* path, int flags) { return OpenPath(AT_FDCWD, path, flags, 0); }
int __open64_2(const char* path, int flags) { return OpenPath(AT_FDCWD, path, flags | O_LARGEFILE, 0); }
int __openat_2(int folder, const char* path, int flags) { return OpenPath(folder, path, flags, 0); }
int __openat64_2(int folder, const char* path, int flags) {
  return OpenPath(folder, path, flags | O_LARGEFILE, 0);
}

FILE* fopen(const char* path, const char* mode) { return Real().fopen(RedirectedPath(path), mode); }
FILE* fopen64(const char* path, const char* mode) { return Real().fopen64(RedirectedPath(path), mode); }
DIR* opendir(const char* path) { return Real().opendir(RedirectedPath(path)); }

int scandir(const char* path, dirent*** entries, int (*filter)(const dirent*),
            int (*compare)(const dirent**, const dirent**)) {
  return Real().scandir(RedirectedPath(path), entries, filter, compare);
}

int scandir64(const char* path, dirent64*** entries, int (*filter)(const dirent64*),
              int (*compare)(const dirent64**, const dirent64**)) {
  return Real().scandir64(RedirectedPath(path), entries, filter, compare);
}

int chdir(const char* path) noexcept { return Real().chdir(RedirectedPath(path)); }
int access(const char* path, int mode) noexcept { return Real().access(RedirectedPath(path), mode); }
int faccessat(int folder, const char* path, int mode, int flags) noexcept {
  return Real().faccessat(folder, RedirectedPath(path), mode, flags);
}

ssize_t readlink(const char* path, char* target, size_t size) noexcept {
  return Real().readlink(RedirectedPath(path), target, size);
}
ssize_t readlinkat(int folder, const char* path, char* target, size_t size) noexcept {
  return Real().readlinkat(folder, RedirectedPath(path), target, size);
}
ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t target_size) noexcept {
  return Real().readlink_chk(RedirectedPath(path), target, size, target_size);
}
ssize_t __readlinkat_chk(int folder, const char* path, char* target, size_t size,
                         size_t target_size) noexcept {
  return Real().readlinkat_chk(folder, RedirectedPath(path), target, size, target_size);
}

char* realpath(const char* path, char* resolved) noexcept {
  const RedirectedPath redirected(path);
  return redirected.ShowOriginal(Real().realpath(redirected, resolved));
}
char* __realpath_chk(const char* path, char* resolved, size_t resolved_size) noexcept {
  const RedirectedPath redirected(path);
  return redirected.ShowOriginal(Real().realpath_chk(redirected, resolved, resolved_size));
}
char* canonicalize_file_name(const char* path) noexcept {
  const RedirectedPath redirected(path);
  return redirected.ShowOriginal(Real().canonicalize_file_name(redirected));
}

ssize_t getxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  return Real().getxattr(RedirectedPath(path), name, value, size);
}
ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) noexcept {
  return Real().lgetxattr(RedirectedPath(path), name, value, size);
}

int stat(const char* path, struct stat* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().stat(p, status); });
}
int stat64(const char* path, struct stat64* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().stat64(p, status); });
}
int lstat(const char* path, struct stat* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().lstat(p, status); });
}
int lstat64(const char* path, struct stat64* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().lstat64(p, status); });
}
int fstatat(int folder, const char* path, struct stat* status, int flags) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().fstatat(folder, p, status, flags); });
}
int fstatat64(int folder, const char* path, struct stat64* status, int flags) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().fstatat64(folder, p, status, flags); });
}
int __xstat(int version, const char* path, struct stat* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().xstat(version, p, status); });
}
int __xstat64(int version, const char* path, struct stat64* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().xstat64(version, p, status); });
}
int __lxstat(int version, const char* path, struct stat* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().lxstat(version, p, status); });
}
int __lxstat64(int version, const char* path, struct stat64* status) noexcept {
  return StatPath(path, status, [&](const char* p) { return Real().lxstat64(version, p, status); });
}

int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) noexcept {
  const RedirectedPath redirected(path);
  const int result = Real().statx(folder, redirected, flags, mask, status);
  if (result == 0 && redirected.node()) {
    status->stx_mode = S_IFCHR | 0666;
    status->stx_rdev_major = redirected.node().major;
    status->stx_rdev_minor = redirected.node().minor;
    status->stx_size = 0;
  }
  return result;
}

int fstat(int fd, struct stat* status) noexcept { return StatFile(fd, Real().fstat(fd, status), status); }
int fstat64(int fd, struct stat64* status) noexcept {
  return StatFile(fd, Real().fstat64(fd, status), status);
}
int __fxstat(int version, int fd, struct stat* status) noexcept {
  return StatFile(fd, Real().fxstat(version, fd, status), status);
}
int __fxstat64(int version, int fd, struct stat64* status) noexcept {
  return StatFile(fd, Real().fxstat64(version, fd, status), status);
}

#pragma GCC visibility pop
}
