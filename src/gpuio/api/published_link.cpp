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

int PublishedLink::Create() {
  if (symlink(target_.c_str(), Path().c_str()) != 0) return errno;
  is_linked_ = true;
  return 0;
}

int PublishedLink::CreateAgain() {
  if (!is_linked_) return 0;
  std::string target;
  if (ReadLink(Path(), target) == 0) return target == target_ ? 0 : EEXIST;
  return Create();
}

int PublishedLink::Remove() {
  if (!is_linked_ || !IsOfThisProcess()) return 0;
  if (unlink(Path().c_str()) != 0 && errno != ENOENT) return errno;
  is_linked_ = false;
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio
