#include "preload/real.hpp"

#include <dlfcn.h>

namespace softhca::preload {
namespace {

template <class Function>
void Resolve(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

RealFunctions ResolveAll() {
  RealFunctions real;
  Resolve(real.access, "access");
  Resolve(real.canonicalize_file_name, "canonicalize_file_name");
  Resolve(real.chdir, "chdir");
  Resolve(real.close, "close");
  Resolve(real.faccessat, "faccessat");
  Resolve(real.fopen, "fopen");
  Resolve(real.fopen64, "fopen64");
  Resolve(real.fstat, "fstat");
  Resolve(real.fstat64, "fstat64");
  Resolve(real.fstatat, "fstatat");
  Resolve(real.fstatat64, "fstatat64");
  Resolve(real.fxstat, "__fxstat");
  Resolve(real.fxstat64, "__fxstat64");
  Resolve(real.getxattr, "getxattr");
  Resolve(real.ioctl, "ioctl");
  Resolve(real.lgetxattr, "lgetxattr");
  Resolve(real.lstat, "lstat");
  Resolve(real.lstat64, "lstat64");
  Resolve(real.lxstat, "__lxstat");
  Resolve(real.lxstat64, "__lxstat64");
  Resolve(real.open, "open");
  Resolve(real.openat, "openat");
  Resolve(real.opendir, "opendir");
  Resolve(real.readlink, "readlink");
  Resolve(real.readlinkat, "readlinkat");
  Resolve(real.readlinkat_chk, "__readlinkat_chk");
  Resolve(real.readlink_chk, "__readlink_chk");
  Resolve(real.realpath, "realpath");
  Resolve(real.realpath_chk, "__realpath_chk");
  Resolve(real.scandir, "scandir");
  Resolve(real.scandir64, "scandir64");
  Resolve(real.socket, "socket");
  Resolve(real.stat, "stat");
  Resolve(real.stat64, "stat64");
  Resolve(real.statx, "statx");
  Resolve(real.write, "write");
  Resolve(real.xstat, "__xstat");
  Resolve(real.xstat64, "__xstat64");
  return real;
}

}  // namespace

const RealFunctions& Real() {
  static const RealFunctions real = ResolveAll();
  return real;
}

}  // namespace softhca::preload
