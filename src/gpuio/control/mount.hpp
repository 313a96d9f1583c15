#pragma once

#include <string>

#include "warpverbs/version.hpp"

/// Paths of a mount.
namespace warpverbs::inline v0_2::gpuio {

inline constexpr char kControlFolder[] = "3fs-virt";

inline std::string IovFolderOf(const std::string& mount) { return mount + "/" + kControlFolder + "/iovs"; }

/// The link to the daemon's socket.
inline std::string DaemonLinkOf(const std::string& mount) { return mount + "/" + kControlFolder + "/daemon"; }

/// The link to the semaphore that rings of a priority post: -1, 0 or 1.
inline std::string SubmitLinkOf(const std::string& mount, int priority) {
  return IovFolderOf(mount) + "/submit-ios" + (priority < 0 ? ".ph" : priority > 0 ? ".pl" : "");
}

/// Returns the target of a symbolic link.
///
/// @return  0 or an errno value
int ReadLink(const std::string& path, std::string& target);

/// Returns the one spelling of a mount's path: absolute, without links, without a slash at its end.
std::string CanonicalMount(const std::string& mount);

/// Returns the mount that a file or folder is on, or would be on; empty: none.
std::string FindMount(const std::string& path);

}  // namespace warpverbs::inline v0_2::gpuio
