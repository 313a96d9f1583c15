#include "gpuio/api/published_link.hpp"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "gpuio/control/mount.hpp"

namespace warpverbs::inline v0_2::gpuio {

PublishedLink::PublishedLink(const std::string& mount, std::string name, std::string target)
    : mount_(mount), name_(std::move(name)), target_(std::move(target)), owner_(getpid()) {}

std::string PublishedLink::Path() const { return IovFolderOf(mount_) + "/" + name_; }

bool PublishedLink::IsOfThisProcess() const { return owner_ == getpid(); }

bool PublishedLink::is_linked() const {
  if (!IsOfThisProcess()) return false;
  const sync::LockGuard lock(mutex_);
  return is_linked_;
}

int PublishedLink::Make() {
  if (symlink(target_.c_str(), Path().c_str()) != 0) return errno;
  is_linked_ = true;
  return 0;
}

int PublishedLink::Create() {
  const sync::LockGuard lock(mutex_);
  return Make();
}

int PublishedLink::CreateAgain() {
  const sync::LockGuard lock(mutex_);
  if (!is_linked_) return ENOENT;
  std::string target;
  if (ReadLink(Path(), target) == 0) return target == target_ ? 0 : EEXIST;
  return Make();
}

int PublishedLink::Remove() {
  if (!IsOfThisProcess()) return 0;
  const sync::LockGuard lock(mutex_);
  if (!is_linked_) return 0;
  // ENOTCONN: the mount's daemon was killed, and the link with it.
  if (unlink(Path().c_str()) != 0 && errno != ENOENT && errno != ENOTCONN) return errno;
  is_linked_ = false;
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio
