#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

extern "C" {
// NOLINTBEGIN(bugprone-reserved-identifier): the C library's own names
// Functions that programs built against older or hardened C libraries call instead.
int __open_2(const char* path, int flags);
int __open64_2(const char* path, int flags);
int __openat_2(int folder, const char* path, int flags);
int __openat64_2(int folder, const char* path, int flags);
char* __realpath_chk(const char* path, char* resolved, size_t resolved_size) noexcept;
ssize_t __readlink_chk(const char* path, char* target, size_t size, size_t target_size) noexcept;
ssize_t __readlinkat_chk(int folder, const char* path, char* target, size_t size,
                         size_t target_size) noexcept;
int __xstat(int version, const char* path, struct stat* status) noexcept;
int __xstat64(int version, const char* path, struct stat64* status) noexcept;
int __lxstat(int version, const char* path, struct stat* status) noexcept;
int __lxstat64(int version, const char* path, struct stat64* status) noexcept;
int __fxstat(int version, int fd, struct stat* status) noexcept;
int __fxstat64(int version, int fd, struct stat64* status) noexcept;
// NOLINTEND(bugprone-reserved-identifier)
}

namespace softhca::preload {

/// The hooked functions, as the next library in the search order has them.
struct RealFunctions {
  decltype(&::access) access;
  char* (*canonicalize_file_name)(const char*);
  decltype(&::chdir) chdir;
  decltype(&::close) close;
  decltype(&::faccessat) faccessat;
  decltype(&::fopen) fopen;
  decltype(&::fopen64) fopen64;
  decltype(&::fstat) fstat;
  decltype(&::fstat64) fstat64;
  decltype(&::fstatat) fstatat;
  decltype(&::fstatat64) fstatat64;
  decltype(&::__fxstat) fxstat;
  decltype(&::__fxstat64) fxstat64;
  ssize_t (*getxattr)(const char*, const char*, void*, size_t);
  decltype(&::ioctl) ioctl;
  ssize_t (*lgetxattr)(const char*, const char*, void*, size_t);
  decltype(&::lstat) lstat;
  decltype(&::lstat64) lstat64;
  decltype(&::__lxstat) lxstat;
  decltype(&::__lxstat64) lxstat64;
  decltype(&::open) open;
  decltype(&::openat) openat;
  decltype(&::opendir) opendir;
  decltype(&::readlink) readlink;
  decltype(&::readlinkat) readlinkat;
  decltype(&::__readlinkat_chk) readlinkat_chk;
  decltype(&::__readlink_chk) readlink_chk;
  char* (*realpath)(const char*, char*);
  decltype(&::__realpath_chk) realpath_chk;
  decltype(&::scandir) scandir;
  decltype(&::scandir64) scandir64;
  decltype(&::socket) socket;
  decltype(&::stat) stat;
  decltype(&::stat64) stat64;
  decltype(&::statx) statx;
  decltype(&::write) write;
  decltype(&::__xstat) xstat;
  decltype(&::__xstat64) xstat64;
};

/// Returns the functions; resolves them on the first call.
const RealFunctions& Real();

}  // namespace softhca::preload
