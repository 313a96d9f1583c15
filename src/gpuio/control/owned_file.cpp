#include "gpuio/control/owned_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr char kFolder[] = "/dev/shm";
constexpr mode_t kMark = S_ISVTX;  // without effect on a file

}  // namespace

host::FileDescriptor MakeOwnFile(size_t bytes, int& error) {
  host::FileDescriptor file(open(kFolder, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  const bool is_made =
      file && flock(file.get(), LOCK_SH | LOCK_NB) == 0 && fchmod(file.get(), S_IRUSR | S_IWUSR | kMark) == 0;
  error = is_made ? 0 : errno;
  if (error == 0 && bytes > static_cast<size_t>(INT64_MAX)) error = EFBIG;
  if (error == 0 && ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) error = errno;
  return error == 0 ? std::move(file) : host::FileDescriptor();
}

int NameOwnFile(int file, const std::string& name) {
  const std::string by_descriptor = "/proc/self/fd/" + std::to_string(file);
  const std::string path = std::string(kFolder) + "/" + name;
  return linkat(AT_FDCWD, by_descriptor.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
}

void RemoveIfAbandoned(const std::string& name) {
  const std::string path = std::string(kFolder) + "/" + name;
  const host::FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) return;
  const bool may_be_removed = S_ISREG(status.st_mode) && (status.st_mode & kMark) != 0 &&
                              (geteuid() == 0 || geteuid() == status.st_uid);
  if (may_be_removed && flock(file.get(), LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
}

void RemoveAbandonedFiles() {
  std::error_code error;
  // Other processes make and remove files meanwhile: the next time finds what this one misses.
  for (std::filesystem::directory_iterator entry(kFolder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kBufferFilePrefix) || name.starts_with(kSemaphoreFilePrefix))
      RemoveIfAbandoned(name);
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
