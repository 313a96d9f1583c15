#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpuio/daemon/control_space.hpp"
#include "gpuio/mount/control_links.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// The control folder of a mount by FUSE: what the mount shows, and what the daemon reads.
///
/// A link belongs to the user that made it: only that user and root may remove it.
class MountedLinks final : public ControlLinks, public ControlSpace {
 public:
  static constexpr size_t kMaxLinks = size_t{1} << 20;
  static constexpr size_t kMaxTargetBytes = 4095;

  void Open(const std::string& socket, const std::array<std::string, kPriorities.size()>& submit,
            std::function<void(const std::string&)> on_removed) override;
  void Close() override;
  int ReadLink(const std::string& name, std::string& target) const override;
  void Unlink(const std::string& name, const std::string& target) override;

  std::string Socket() const override { return socket_; }
  std::vector<std::string> List() const override;
  std::optional<std::string> Target(const std::string& name) const override;

  /// @return  EINVAL: the name is that of no buffer or ring; EEXIST; ENAMETOOLONG; ENOSPC
  int Add(const std::string& name, const std::string& target, const ControlCaller& caller) override;

  /// @return  ENOENT; EACCES: it is the daemon's, or another user's
  int Remove(const std::string& name, const ControlCaller& caller) override;

 private:
  struct Link {
    std::string target;
    uid_t user = 0;
  };

  std::string socket_;
  std::map<std::string, std::string> own_;  // links of the daemon: to the semaphores
  std::map<std::string, Link> links_;
  std::function<void(const std::string&)> on_removed_;
};

}  // namespace warpverbs::inline v0_2::gpuio
