#pragma once

#include <sys/types.h>

#include <string>

#include "sync/mutex.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A link in a mount's control folder that this process has made.
///
/// A forked child does not own its parent's links: it removes none. Thread-safe: a link that one thread
/// removes is not made again by another.
class PublishedLink {
 public:
  PublishedLink(const std::string& mount, std::string name, std::string target);

  const std::string& name() const { return name_; }
  const std::string& mount() const { return mount_; }

  /// @return  0 or an errno value: EEXIST: the name is taken
  int Create();

  /// Makes the link for a new daemon, unless it is left over.
  ///
  /// @return  0 or an errno value: ENOENT: Remove() has been called; EEXIST: the name is taken
  int CreateAgain();

  /// Removes the link, once: a link that another process makes by this name later is not touched.
  ///
  /// @return  0 or an errno value; then the next call tries again
  int Remove();

  /// Says whether this process has made the link, and not removed it. False in a forked child.
  bool is_linked() const;
  bool IsOfThisProcess() const;

 private:
  std::string Path() const;
  int Make() WARPVERBS_REQUIRES(mutex_);

  const std::string mount_, name_, target_;
  const pid_t owner_;
  mutable sync::Mutex mutex_;  // a forked child never locks it
  bool is_linked_ WARPVERBS_GUARDED_BY(mutex_) = false;
};

}  // namespace warpverbs::inline v0_2::gpuio
