#pragma once

#include <sys/types.h>

#include <string>

#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// A link in a mount's control folder that this process has made.
///
/// A forked child does not own its parent's links: it removes none.
class PublishedLink {
 public:
  PublishedLink(const std::string& mount, std::string name, std::string target);

  const std::string& name() const { return name_; }
  const std::string& mount() const { return mount_; }

  /// @return  0 or an errno value: EEXIST: the name is taken
  int Create();

  /// Makes the link for a new daemon, in place of one that is left over. Does nothing if Remove() has been
  /// called.
  int CreateAgain();

  /// Removes the link, once: a link that another process makes by this name later is not touched.
  ///
  /// @return  0 or an errno value; then the next call tries again
  int Remove();

  bool is_linked() const { return is_linked_; }
  bool IsOfThisProcess() const;

 private:
  std::string Path() const;

  std::string mount_, name_, target_;
  pid_t owner_;
  bool is_linked_ = false;
};

}  // namespace warpverbs::inline v0_2::gpuio
