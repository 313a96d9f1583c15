#include "machine/files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "warpverbs/host/dma_buf.hpp"

namespace warpverbs::programs {
namespace {

constexpr size_t kMaxTextBytes = 1 << 24;  // /var/lib/dpkg/status has a few megabytes

/// @return  invalid on failure; errno has the reason
host::FileDescriptor Open(const std::string& path, int flags) {
  return host::FileDescriptor(open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK));
}

}  // namespace

std::vector<uint8_t> Files::ReadBytes(const std::string& path, size_t max) const {
  const host::FileDescriptor file = Open(root_ + path, O_RDONLY);
  std::vector<uint8_t> bytes;
  while (file && bytes.size() < max) {
    uint8_t piece[4096];
    const ssize_t count = read(file.get(), piece, std::min(sizeof piece, max - bytes.size()));
    if (count <= 0) break;
    bytes.insert(bytes.end(), piece, piece + count);
  }
  return bytes;
}

std::optional<std::string> Files::Read(const std::string& path) const {
  const host::FileDescriptor file = Open(root_ + path, O_RDONLY);
  if (!file) return std::nullopt;
  std::string text;
  char piece[4096];
  for (ssize_t count; text.size() < kMaxTextBytes && (count = read(file.get(), piece, sizeof piece)) != 0;) {
    if (count < 0) return std::nullopt;  // some files of /sys open but cannot be read
    text.append(piece, static_cast<size_t>(count));
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::string> Files::List(const std::string& folder) const {
  const std::unique_ptr<DIR, int (*)(DIR*)> open_folder(opendir((root_ + folder).c_str()), closedir);
  std::vector<std::string> names;
  if (!open_folder) return names;
  while (const dirent* const entry = readdir(open_folder.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool Files::Exists(const std::string& path) const { return access((root_ + path).c_str(), F_OK) == 0; }

std::string Files::Resolve(const std::string& path) const {
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath((root_ + path).c_str(), nullptr), std::free);
  if (!resolved) return "";
  std::string text = resolved.get();
  if (root_.empty()) return text;
  const std::unique_ptr<char, void (*)(void*)> root(realpath(root_.c_str(), nullptr), std::free);
  return root && text.starts_with(root.get()) ? text.substr(std::string_view(root.get()).size()) : "";
}

int Files::TryOpen(const std::string& path) const {
  errno = 0;
  return Open(root_ + path, O_RDWR) ? 0 : errno;
}

}  // namespace warpverbs::programs
