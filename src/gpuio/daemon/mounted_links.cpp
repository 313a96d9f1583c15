#include "gpuio/daemon/mounted_links.hpp"

#include <cerrno>
#include <filesystem>
#include <utility>

#include "gpuio/control/mount.hpp"
#include "gpuio/control/names.hpp"

namespace warpverbs::inline v0_2::gpuio {

void MountedLinks::Open(const std::string& socket, const std::array<std::string, kPriorities.size()>& submit,
                        std::function<void(const std::string&)> on_removed) {
  socket_ = socket;
  on_removed_ = std::move(on_removed);
  for (size_t i = 0; i < submit.size(); ++i)
    own_[std::filesystem::path(SubmitLinkOf("", kPriorities[i])).filename().string()] = submit[i];
}

void MountedLinks::Close() {
  socket_.clear();
  own_.clear();
  links_.clear();
  on_removed_ = nullptr;
}

int MountedLinks::ReadLink(const std::string& name, std::string& target) const {
  const auto found = links_.find(name);
  if (found == links_.end()) return ENOENT;
  target = found->second.target;
  return 0;
}

void MountedLinks::Unlink(const std::string& name, const std::string& target) {
  const auto found = links_.find(name);
  if (found != links_.end() && found->second.target == target) links_.erase(found);
}

std::vector<std::string> MountedLinks::List() const {
  std::vector<std::string> names;
  names.reserve(own_.size() + links_.size());
  for (const auto& [name, target] : own_) names.push_back(name);
  for (const auto& [name, link] : links_) names.push_back(name);
  return names;
}

std::optional<std::string> MountedLinks::Target(const std::string& name) const {
  if (const auto own = own_.find(name); own != own_.end()) return own->second;
  std::string target;
  return ReadLink(name, target) == 0 ? std::optional(target) : std::nullopt;
}

int MountedLinks::Add(const std::string& name, const std::string& target, const ControlCaller& caller) {
  if (own_.contains(name) || links_.contains(name)) return EEXIST;
  if (!LinkName::Parse(name)) return EINVAL;
  if (target.size() > kMaxTargetBytes) return ENAMETOOLONG;
  if (links_.size() >= kMaxLinks) return ENOSPC;
  links_.emplace(name, Link{target, caller.user});
  return 0;
}

int MountedLinks::Remove(const std::string& name, const ControlCaller& caller) {
  if (own_.contains(name)) return EACCES;
  const auto found = links_.find(name);
  if (found == links_.end()) return ENOENT;
  if (caller.user != 0 && caller.user != found->second.user) return EACCES;
  links_.erase(found);
  if (on_removed_) on_removed_(name);
  return 0;
}

}  // namespace warpverbs::inline v0_2::gpuio
