#include "preload/redirect.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>

#include "preload/process.hpp"

namespace softhca::preload {
namespace {

constexpr std::string_view kSys = "/sys";
constexpr std::string_view kNodes = "/dev/infiniband";
constexpr std::string_view kUverbs = "/dev/infiniband/uverbs";
constexpr std::string_view kRdmaCm = "/dev/infiniband/rdma_cm";
constexpr std::string_view kPlaces[] = {
    "/sys/class/infiniband",  // also infiniband_verbs and infiniband_mad
    "/sys/class/misc/rdma_cm",
    "/sys/devices/pcica7e:",  // same as identity::kPciDomain
    "/sys/bus/pci/devices/ca7e:",
    "/sys/module/nvidia_peermem",  // only where NVIDIA's driver is
};

bool StartsWith(const char* path, std::string_view prefix) {
  return std::strncmp(path, prefix.data(), prefix.size()) == 0;
}

identity::DeviceNode NodeOf(const char* path) {
  if (path == kRdmaCm) return identity::kRdmaCmNode;
  if (!StartsWith(path, kUverbs)) return {};
  const char* const digits = path + kUverbs.size();
  char* end = nullptr;
  const long number = std::strtol(digits, &end, 10);
  if (*digits < '0' || *digits > '9' || *end != '\0' || number > INT_MAX) return {};
  return identity::UverbsNode(static_cast<uint32_t>(number));
}

/// Returns the length of the launcher's tree if the path is in it, else 0. The program knows the tree from
/// SYSFS_PATH.
size_t InTree(const char* path) {
  const Settings* const settings = LaunchSettings();
  if (settings == nullptr || !StartsWith(path, settings->tree)) return 0;
  const char next = path[settings->tree.size()];
  return next == '/' || next == '\0' ? settings->tree.size() : 0;
}

}  // namespace

RedirectedPath::RedirectedPath(const char* path) : path_(path) {
  if (path == nullptr || path[0] != '/') return;
  const bool node = StartsWith(path, kNodes);
  const auto holds = [&](std::string_view place) { return StartsWith(path, place); };
  const size_t skip = node                                                         ? 0
                      : std::any_of(std::begin(kPlaces), std::end(kPlaces), holds) ? kSys.size()
                                                                                   : InTree(path);
  if (skip == 0 && !node) return;
  const Settings* const settings = OwnSettings();
  if (settings == nullptr) return;
  node_ = NodeOf(path);
  const char* const below = path + skip;
  const int length = std::snprintf(buffer_, sizeof buffer_, "%s%s", settings->tree.c_str(), below);
  if (length > 0 && static_cast<size_t>(length) < sizeof buffer_) path_ = buffer_;
}

char* RedirectedPath::ShowOriginal(char* resolved) const {
  if (resolved == nullptr || path_ != buffer_) return resolved;
  const std::string& tree = OwnSettings()->tree;
  if (!StartsWith(resolved, tree) || resolved[tree.size()] != '/') return resolved;
  const char* const below = resolved + tree.size();
  char* const place = StartsWith(below, kNodes) ? resolved : std::copy(kSys.begin(), kSys.end(), resolved);
  std::memmove(place, below, std::strlen(below) + 1);  // shrinks: the tree's path is longer than /sys
  return resolved;
}

}  // namespace softhca::preload
