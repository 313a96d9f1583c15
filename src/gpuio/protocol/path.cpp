#include "gpuio/protocol/path.hpp"

#include <algorithm>
#include <cerrno>

namespace warpverbs::inline v0_2::gpuio::protocol {

std::optional<std::string> ToPlainPath(std::string_view path) {
  std::string plain;
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size() == path.size() ? name.size() : name.size() + 1);
    if (name.empty() || name == ".") continue;
    if (name == ".." || name.size() > kMaxNameBytes || name.find('\0') != name.npos) return std::nullopt;
    if (!plain.empty()) plain += '/';
    plain += name;
    if (plain.size() > kMaxPathBytes) return std::nullopt;
  }
  return plain;
}

bool IsPlainPath(std::string_view path) {
  if (path.size() > kMaxPathBytes) return false;
  const auto plain = ToPlainPath(path);
  return plain && *plain == path;
}

int PathError(std::string_view path) {
  if (path.size() > kMaxPathBytes) return ENAMETOOLONG;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (end - begin > kMaxNameBytes) return ENAMETOOLONG;
    begin = end + 1;
  }
  return EINVAL;
}

ParentAndName SplitPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", std::string(path)};
  return {std::string(path.substr(0, slash)), std::string(path.substr(slash + 1))};
}

}  // namespace warpverbs::inline v0_2::gpuio::protocol
