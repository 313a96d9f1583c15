#include "gpuio/daemon/control_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "gpuio/control/log.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/control/names.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

void ThrowErrno(const std::string& step, const std::string& object, int error, const std::string& remedy) {
  throw host::Error::FromErrno(step, object, error, remedy);
}

}  // namespace

ControlFolder::ControlFolder(std::string mount, transport::EventLoop& loop)
    : mount_(std::move(mount)), events_(loop.executor()) {
  const std::string folder = IovFolderOf(mount_);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) ThrowErrno("make", folder, error.value(), "Name an existing folder that this user may write to");
  lock_ = host::FileDescriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_) ThrowErrno("open", folder, errno, "Name a folder that this user may read");
  if (flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason != EWOULDBLOCK) ThrowErrno("lock", folder, reason, "Use a file system that has flock()");
    throw host::Error("serve", mount_, "another warpverbs-gpuiod serves it", "Stop that one first", reason);
  }
  RemoveLeftovers();
}

void ControlFolder::Open(const std::string& socket, const std::array<std::string, kPriorities.size()>& submit,
                         std::function<void(const std::string&)> on_removed) {
  const std::string folder = IovFolderOf(mount_);
  on_removed_ = std::move(on_removed);
  const int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch < 0) ThrowErrno("watch", folder, errno, "Raise fs.inotify.max_user_instances");
  events_.assign(watch);
  if (inotify_add_watch(watch, folder.c_str(), IN_DELETE | IN_MOVED_FROM | IN_ONLYDIR) < 0)
    ThrowErrno("watch", folder, errno, "Raise fs.inotify.max_user_watches");
  Watch();
  for (size_t i = 0; i < submit.size(); ++i) Link(SubmitLinkOf(mount_, kPriorities[i]), submit[i]);
  Link(DaemonLinkOf(mount_), socket);  // last: an application that finds it finds the others
}

void ControlFolder::Close() {
  on_removed_ = nullptr;
  if (events_.is_open()) events_.close();
  for (const std::string& path : made_) unlink(path.c_str());
  made_.clear();
  lock_.Close();  // last: the next daemon finds nothing of this one
}

void ControlFolder::RemoveLeftovers() const {
  constexpr std::string_view kSemaphores = "/dev/shm/sem.";
  unlink(DaemonLinkOf(mount_).c_str());
  for (const int priority : {-1, 0, 1}) {
    const std::string link = SubmitLinkOf(mount_, priority);
    std::string target;
    if (gpuio::ReadLink(link, target) != 0) continue;
    if (target.starts_with(std::string(kSemaphores) + "hf3fs-submit-")) unlink(target.c_str());
    unlink(link.c_str());
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(IovFolderOf(mount_), error)) {
    if (LinkName::Parse(entry.path().filename().string()) && entry.is_symlink(error))
      unlink(entry.path().c_str());
  }
}

void ControlFolder::Link(const std::string& path, const std::string& target) {
  if (symlink(target.c_str(), path.c_str()) != 0)
    ThrowErrno("link", path, errno, "Check the permissions of the control folder");
  made_.push_back(path);
}

int ControlFolder::ReadLink(const std::string& name, std::string& target) const {
  return gpuio::ReadLink(IovFolderOf(mount_) + "/" + name, target);
}

void ControlFolder::Unlink(const std::string& name, const std::string& target) {
  std::string present;
  if (ReadLink(name, present) == 0 && present == target) unlink((IovFolderOf(mount_) + "/" + name).c_str());
}

void ControlFolder::Watch() {
  events_.async_read_some(asio::buffer(buffer_), [this, alive = std::weak_ptr(is_alive_)](
                                                     const std::error_code& error, size_t bytes) {
    if (error || alive.expired()) return;
    for (size_t at = 0; at + sizeof(inotify_event) <= bytes;) {
      inotify_event event{};
      std::memcpy(&event, buffer_.data() + at, sizeof event);
      const std::string name = event.len > 0 ? buffer_.data() + at + sizeof event : "";
      std::string target;
      // A link that was made again meanwhile is a new one, of which this event says nothing.
      if (!name.empty() && ReadLink(name, target) != 0 && on_removed_) on_removed_(name);
      if ((event.mask & IN_Q_OVERFLOW) != 0)
        Log(LogLevel::kWarn, "links of " + mount_ + " changed too fast: some removals were missed");
      at += sizeof event + event.len;
    }
    Watch();
  });
}

}  // namespace warpverbs::inline v0_2::gpuio
