#include "cli/temporary_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace softhca {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStart = "softhca.";

/// A hundred small files are created and removed. In memory that takes 5 ms, on a disk 100 ms.
fs::path Parent() {
  const char* parent = getenv("TMPDIR");
  if (parent == nullptr) parent = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
  return fs::absolute(parent);
}

Descriptor OpenFolder(const std::string& path) {
  return Descriptor(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

bool IsNumber(const std::string& name) {
  return std::all_of(name.begin(), name.end(), [](char digit) { return digit >= '0' && digit <= '9'; });
}

/// Returns whether a folder holds trees of a launcher and its processes, and nothing else. Folders of other
/// programs may have a name like ours.
bool HoldsOnlyTrees(const fs::path& folder) {
  const auto is_tree = [](const auto& entry) {
    const std::string name = entry.path().filename().string();
    return (name == "launcher" || IsNumber(name)) &&
           entry.symlink_status().type() == fs::file_type::directory;
  };
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(), is_tree);
}

/// Returns whether a process was launched with this folder: it may outlive its launcher.
bool IsInAnEnvironment(const std::string& folder) {
  return std::any_of(fs::directory_iterator("/proc"), fs::directory_iterator(), [&](const auto& entry) {
    if (!IsNumber(entry.path().filename().string())) return false;
    std::ifstream file(entry.path() / "environ", std::ios::binary);
    const std::string environment{std::istreambuf_iterator<char>(file), {}};
    return environment.find(folder) != std::string::npos;
  });
}

void RemoveIfAbandoned(const fs::path& folder) {
  const Descriptor lock = OpenFolder(folder);
  struct stat status {};
  if (!lock || fstat(lock.get(), &status) != 0 || status.st_uid != geteuid()) return;
  constexpr time_t kStartSeconds = 60;  // a launcher of version 0.1 locks nothing, and may be starting
  constexpr time_t kEmptySeconds = 3600;
  const bool empty = fs::is_empty(folder);
  if (time(nullptr) - status.st_mtime < (empty ? kEmptySeconds : kStartSeconds)) return;
  // Nothing else shows that a launcher has created an empty folder, and was killed before it filled it.
  const bool by_mkdtemp = (status.st_mode & ALLPERMS) == S_IRWXU;
  if (empty && !by_mkdtemp) return;
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;  // its launcher or a process of it lives
  if (HoldsOnlyTrees(folder) && !IsInAnEnvironment(folder)) fs::remove_all(folder);
}

void RemoveAbandonedFolders(const fs::path& parent) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    constexpr size_t kUnique = 6;  // letters that mkdtemp() chooses
    if (name.size() != kStart.size() + kUnique || !name.starts_with(kStart)) continue;
    try {
      RemoveIfAbandoned(entry.path());
    } catch (const fs::filesystem_error&) {
      // It is in use, or another launcher removes it, too.
    }
  }
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  constexpr int kTries = 100;
  for (int i = 1; !Create(); ++i) {
    if (i == kTries)
      throw std::runtime_error("cannot keep a folder in " + Parent().string() + "; other programs remove it");
  }
  RemoveAbandonedFolders(fs::path(path_).parent_path());
}

/// @return  false if another launcher has taken the new folder for an abandoned one
bool TemporaryFolder::Create() {
  path_ = (Parent() / (std::string(kStart) + "XXXXXX")).string();
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(),
                            "cannot create " + path_ + "; set TMPDIR to a writable folder");
  }
  lock_ = OpenFolder(path_);
  struct stat status {};
  if (!lock_ && errno != ENOENT)
    throw std::system_error(errno, std::generic_category(), "cannot open " + path_);
  if (!lock_ || (flock(lock_.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK)) return false;
  if (fstat(lock_.get(), &status) != 0 || status.st_nlink == 0) return false;
  path_ = fs::canonical(path_).string();  // InTree() compares it with resolved paths
  return true;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace softhca
