#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/repetitions.hpp"
#include "gpuio/common/basics.hpp"
#include "gpuio/control/mount.hpp"
#include "gpuio/daemon/daemon.hpp"
#include "gpuio/local_files.hpp"
#include "warpverbs/gpuio/hf3fs_usrbio.h"
#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"

namespace warpverbs::inline v0_2::gpuio {

/// A mount with a daemon in this process.
class ServedMount {
 public:
  ServedMount() { Start(); }
  ~ServedMount() { Stop(); }

  const char* path() const { return folder_.path().c_str(); }
  std::string File(const std::string& name) const { return folder_ / name; }
  std::string IovFolder() const { return IovFolderOf(folder_.path()); }

  void Start() {
    OnLoop([this] {
      const DaemonConfig config{.mount = folder_.path(), .socket_path = folder_ / "3fs-virt/socket"};
      daemon_ = std::make_unique<Daemon>(config, loop_, files_);
    });
  }
  void Stop() {
    OnLoop([this] { daemon_.reset(); });
  }

  DaemonStatistics Statistics() {
    DaemonStatistics statistics;
    OnLoop([&] { statistics = daemon_->Statistics(); });
    return statistics;
  }

  LocalFiles& files() { return files_; }

  /// Runs work on the loop's thread, and waits for it.
  void OnLoop(const std::function<void()>& work) { gpuio::OnLoop(loop_, work); }

  void WriteFile(const std::string& name, const std::string& text) const {
    std::ofstream(File(name), std::ios::binary) << text;
  }
  std::string ReadFile(const std::string& name) const {
    std::ifstream file(File(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// Returns the links of buffers and rings.
  std::set<std::string> Links() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(IovFolder())) {
      const std::string name = entry.path().filename().string();
      if (!name.starts_with("submit-ios")) names.insert(name);
    }
    return names;
  }

 private:
  TemporaryFolder folder_;
  transport::EventLoop loop_;
  LocalFiles files_{folder_.path(), loop_};
  std::unique_ptr<Daemon> daemon_;
};

/// Cycles of creating and destroying; sanitizers make each take ten times as long.
inline constexpr int kCycles = tests::kSanitized ? 100 : 1000;

/// Returns a size of buffers that no other process uses, so that their files are told from those of other
/// tests.
inline size_t OwnBytes() { return 1'000'000 + static_cast<size_t>(getpid()); }

/// Returns the files of /dev/shm that buffers of a size have.
inline std::set<std::string> ShmFiles(size_t bytes) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename().string();
    std::error_code gone;
    if (name.starts_with("hf3fs-iov-") && entry.file_size(gone) == bytes && !gone) names.insert(name);
  }
  return names;
}

/// Fills a struct with a pattern; an error must leave it alone.
template <class T>
struct Untouched {
  Untouched() { std::memset(&value, 0x5a, sizeof value); }
  bool IsUntouched() const {
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&value);
    return std::all_of(bytes, bytes + sizeof value, [](unsigned char byte) { return byte == 0x5a; });
  }
  T value;
};

inline bool IsZero(const hf3fs_iov& iov) {
  const hf3fs_iov zero{};
  return std::memcmp(&iov, &zero, sizeof iov) == 0;
}

/// An open file, closed with this.
struct OpenedHere {
  OpenedHere(const std::string& path, int flags) : fd(open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~OpenedHere() { close(fd); }
  OpenedHere(const OpenedHere&) = delete;
  OpenedHere& operator=(const OpenedHere&) = delete;
  int fd;
};

/// Takes one completion, or fails after a minute.
inline hf3fs_cqe WaitForOne(const hf3fs_ior& ior) {
  hf3fs_cqe cqe{.index = -1, .reserved = 0, .result = -ETIMEDOUT, .userdata = nullptr};
  timespec end{};
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 60;
  EXPECT_EQ(hf3fs_wait_for_ios(&ior, &cqe, 1, 1, &end), 1);
  return cqe;
}

}  // namespace warpverbs::inline v0_2::gpuio
