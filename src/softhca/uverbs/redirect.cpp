#include "uverbs/redirect.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "uverbs/process.hpp"

namespace softhca::uverbs {
namespace {

constexpr char kSys[] = "/sys";
constexpr char kClass[] = "/sys/class/infiniband";  // and its kin: infiniband_verbs, infiniband_mad
constexpr char kNodes[] = "/dev/infiniband";
constexpr char kNode[] = "/dev/infiniband/uverbs";

template <size_t kSize>
bool StartsWith(const char* path, const char (&prefix)[kSize]) {
  return std::strncmp(path, prefix, kSize - 1) == 0;
}

int DeviceNumber(const char* path) {
  if (!StartsWith(path, kNode)) return -1;
  const char* const digits = path + sizeof kNode - 1;
  char* end = nullptr;
  const long number = std::strtol(digits, &end, 10);
  return *digits < '0' || *digits > '9' || *end != '\0' || number > INT_MAX ? -1 : static_cast<int>(number);
}

}  // namespace

RedirectedPath::RedirectedPath(const char* path) : path_(path) {
  if (path == nullptr || path[0] != '/') return;
  const bool node = StartsWith(path, kNodes);
  if (!node && !StartsWith(path, kClass)) return;
  const Settings* const settings = LaunchSettings();
  if (settings == nullptr) return;
  device_ = DeviceNumber(path);
  const char* const below = node ? path : path + sizeof kSys - 1;
  const int length = std::snprintf(buffer_, sizeof buffer_, "%s%s", settings->tree.c_str(), below);
  if (length > 0 && static_cast<size_t>(length) < sizeof buffer_) path_ = buffer_;
}

}  // namespace softhca::uverbs
