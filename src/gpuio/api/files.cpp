#include "gpuio/api/files.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "gpuio/api/arguments.hpp"
#include "gpuio/api/daemon_session.hpp"
#include "gpuio/api/fork_guard.hpp"
#include "gpuio/control/mount.hpp"
#include "sync/mutex.hpp"
#include "warpverbs/host/dma_buf.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// A file that the daemon knows by its inode.
class OpenFile final : public DaemonSession::Member {
 public:
  OpenFile(std::shared_ptr<DaemonSession> session, OpenFileRequest request, host::FileDescriptor duplicate)
      : session_(std::move(session)), request_(std::move(request)), duplicate_(std::move(duplicate)) {}

  const OpenFileRequest& request() const { return request_; }
  int duplicate() const { return duplicate_.get(); }
  DaemonSession& session() const { return *session_; }

  int rank() const override { return 1; }
  void OnLost(bool) override {}
  int Publish(const DaemonSession::Caller& call) override { return call(request_, -1); }
  std::string name() const override { return "the file " + request_.path; }

 private:
  std::shared_ptr<DaemonSession> session_;
  OpenFileRequest request_;
  host::FileDescriptor duplicate_;
};

/// The registered files, by the caller's descriptor and by the negative of the duplicate.
struct FileTable {
  static FileTable& The() {
    static auto* const table = new FileTable;
    return *table;
  }

  FileTable() {
    // The registrations are the parent's.
    GuardOverFork(mutex, [this]() WARPVERBS_NO_THREAD_SAFETY_ANALYSIS { files.clear(); });
  }

  sync::Mutex mutex;
  std::map<int, std::shared_ptr<OpenFile>> files WARPVERBS_GUARDED_BY(mutex);
};

/// Returns the path of an open file.
///
/// @return  0 or an errno value
int PathOf(int fd, std::string& path) { return ReadLink("/proc/self/fd/" + std::to_string(fd), path); }

bool IsDescriptorNumber(int fd) {
  rlimit limit{};
  const auto number = static_cast<rlim_t>(fd < 0 ? -static_cast<int64_t>(fd) : fd);
  return fd != INT_MIN && getrlimit(RLIMIT_NOFILE, &limit) == 0 && number < limit.rlim_cur;
}

/// @return  0 or an errno value
int DescribeFile(int fd, std::string& mount, OpenFileRequest& request) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return errno;
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return errno;
  std::string path;
  if (const int error = PathOf(fd, path); error != 0) return error;
  if (path.empty() || path.front() != '/') return EBADF;  // a pipe or a socket
  mount = FindMount(path);
  if (mount.empty() || path.size() <= mount.size()) return EBADF;
  request.inode = status.st_ino;
  request.path = path.substr(mount == "/" ? 1 : mount.size() + 1);
  request.reads = (flags & O_ACCMODE) != O_WRONLY;
  request.writes = (flags & O_ACCMODE) != O_RDONLY;
  return 0;
}

/// Makes the daemon forget a file.
void Forget(const OpenFile& file) {
  const OpenFileRequest& request = file.request();
  file.session().Remove(&file);
  file.session().Call(
      CloseFileRequest{.inode = request.inode, .reads = request.reads, .writes = request.writes});
}

/// @param result  the negative of the duplicate
/// @return        0 or an errno value
int Register(int fd, int& result) {
  FileTable& table = FileTable::The();
  if (fd < 0 || !IsDescriptorNumber(fd)) return EBADF;
  {
    const sync::LockGuard lock(table.mutex);
    if (table.files.count(fd) != 0) return EINVAL;
  }
  std::string mount;
  OpenFileRequest request;
  int error = DescribeFile(fd, mount, request);
  if (error != 0) return error;
  constexpr int kLowest = 3;  // 0 has no negative, and programs expect 1 and 2 to be their output
  host::FileDescriptor duplicate(fcntl(fd, F_DUPFD_CLOEXEC, kLowest));
  if (!duplicate) return errno;
  const std::shared_ptr<DaemonSession> session = DaemonSession::Of(mount, error);
  if (error != 0) return error;
  const auto file = std::make_shared<OpenFile>(session, request, std::move(duplicate));
  error = session->Add(file);
  if (error != 0) return error;
  {
    const sync::LockGuard lock(table.mutex);
    if (table.files.emplace(fd, file).second) {
      result = -file->duplicate();
      table.files.emplace(result, file);
    } else {
      error = EINVAL;  // another thread was faster
    }
  }
  if (error != 0) Forget(*file);
  return error;
}

void Deregister(int fd) {
  FileTable& table = FileTable::The();
  std::shared_ptr<OpenFile> file;
  {
    const sync::LockGuard lock(table.mutex);
    const auto found = table.files.find(fd);
    if (found == table.files.end()) return;
    file = found->second;
    std::erase_if(table.files, [&](const auto& entry) { return entry.second == file; });
  }
  Forget(*file);
}

}  // namespace

int FindRegistered(int fd, RegisteredFile& file) {
  FileTable& table = FileTable::The();
  const sync::LockGuard lock(table.mutex);
  const auto found = table.files.find(fd);
  if (found == table.files.end()) return IsDescriptorNumber(fd) ? EBADF : EINVAL;
  const OpenFileRequest& request = found->second->request();
  file = {.inode = request.inode, .reads = request.reads, .writes = request.writes};
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio

using namespace warpverbs::gpuio;

extern "C" {

bool hf3fs_is_hf3fs(int fd) {
  return Guarded([&] {
    std::string path;
    return fd >= 0 && PathOf(fd, path) == 0 && path.starts_with('/') && !FindMount(path).empty();
  });
}

int hf3fs_extract_mount_point(char* hf3fs_mount_point, int size, const char* path) {
  if (path == nullptr) return -1;
  return Guarded(
      [&] {
        const std::string mount = FindMount(path);
        if (mount.empty()) return -1;
        const auto needed = static_cast<int>(mount.size() + 1);
        if (hf3fs_mount_point != nullptr && size >= needed)
          std::memcpy(hf3fs_mount_point, mount.c_str(), mount.size() + 1);
        return needed;
      },
      -1);
}

int hf3fs_reg_fd(int fd, uint64_t) {
  int result = 0;
  const int error = -GuardedErrno([&] { return -Register(fd, result); });
  return error != 0 ? error : result;
}

void hf3fs_dereg_fd(int fd) {
  GuardedErrno([&] {
    Deregister(fd);
    return 0;
  });
}

int hf3fs_hardlink(const char* target, const char* link_name) {
  if (target == nullptr || link_name == nullptr) return -EINVAL;
  return link(target, link_name) == 0 ? 0 : -errno;
}

int hf3fs_punchhole(int fd, int n, const size_t* start, const size_t* end, size_t flags) {
  if (n < 0 || flags != 0 || (n > 0 && (start == nullptr || end == nullptr))) return -EINVAL;
  for (int i = 0; i < n; ++i) {
    if (start[i] > end[i] || end[i] > static_cast<size_t>(INT64_MAX)) return -EINVAL;
  }
  for (int i = 0; i < n; ++i) {
    if (start[i] == end[i]) continue;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(start[i]),
                  static_cast<off_t>(end[i] - start[i])) != 0)
      return -errno;
  }
  return 0;
}

}  // extern "C"
