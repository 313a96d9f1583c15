#include "gpuio/control/owned_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "warpverbs/host/dma_buf.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr char kFolder[] = "/dev/shm";
constexpr mode_t kMark = S_ISVTX;  // without effect on a file

}  // namespace

int OwnFile(int file) {
  // The mark comes second: a file that has it has its lock.
  if (flock(file, LOCK_SH | LOCK_NB) != 0) return errno;
  return fchmod(file, S_IRUSR | S_IWUSR | kMark) == 0 ? 0 : errno;
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
