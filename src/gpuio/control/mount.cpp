#include "gpuio/control/mount.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace warpverbs::inline v0_2::gpuio {
namespace {

bool IsMount(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(IovFolderOf(folder.string()), error)) return false;
  const char* const skip = std::getenv("HF3FS_USRBIO_DONT_CHECKFS_FOR_MP");
  if (skip != nullptr && std::string_view(skip) == "yes") return true;
  return std::filesystem::is_symlink(DaemonLinkOf(folder.string()), error);
}

}  // namespace

int ReadLink(const std::string& path, std::string& target) {
  std::array<char, PATH_MAX> buffer{};
  const ssize_t length = readlink(path.c_str(), buffer.data(), buffer.size());
  if (length < 0) return errno;
  target.assign(buffer.data(), static_cast<size_t>(length));
  return 0;
}

std::string CanonicalMount(const std::string& mount) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::weakly_canonical(std::filesystem::absolute(mount, error), error);
  if (error) return mount;
  return (path.has_filename() || !path.has_relative_path() ? path : path.parent_path()).string();
}

std::string FindMount(const std::string& path) {
  std::filesystem::path place = CanonicalMount(path);
  if (!place.is_absolute()) return {};
  while (true) {
    if (IsMount(place)) return place.string();
    if (!place.has_relative_path()) return {};
    place = place.parent_path();
  }
}

}  // namespace warpverbs::inline v0_2::gpuio
