#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gpuio/daemon/file_store.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Files of a folder, read and written by the processor. Stands for a server in tests of the daemon, which
/// are of host memory.
class LocalFiles final : public FileStore {
 public:
  LocalFiles(std::string folder, transport::EventLoop& loop) : folder_(std::move(folder)), loop_(loop) {}
  ~LocalFiles() override {
    for (const auto& [file, fd] : open_) close(fd);
  }

  void Open(std::string path, int flags, std::function<void(int error, OpenedFile)> done) override {
    const int fd = open((folder_ + "/" + path).c_str(), flags | O_CLOEXEC | O_NOFOLLOW);
    const int error = fd < 0 ? errno : 0;
    OpenedFile opened;
    if (fd >= 0) {
      struct stat status {};
      fstat(fd, &status);
      opened.file = ++last_;
      opened.attributes.device = forced_device == 0 ? status.st_dev : forced_device.load();
      opened.attributes.inode = status.st_ino;
      opened.attributes.mode = status.st_mode;
      open_.emplace(opened.file, fd);
      ++open_files_;
    }
    asio::post(loop_.executor(), [done = std::move(done), error, opened] { done(error, opened); });
  }

  void Close(uint64_t file) override {
    close(open_.at(file));
    open_.erase(file);
    --open_files_;
  }

  void Read(uint64_t file, uint64_t offset, const RegisteredRange& target, Holes holes,
            std::function<void(ReadResult)> done) override {
    ReadResult result;
    result.result = forced_result;
    if (result.result == 0) {
      result.result = pread(open_.at(file), target.memory.ptr, target.memory.len, static_cast<off_t>(offset));
      if (result.result < 0) result.result = -errno;
      if (holes != Holes::kSend) result.holes = forced_holes;
    }
    Finish([done = std::move(done), result] { done(result); });
  }

  void Write(uint64_t file, uint64_t offset, const RegisteredRange& source,
             std::function<void(int64_t)> done) override {
    int64_t result = forced_result;
    if (result == 0) {
      result = pwrite(open_.at(file), source.memory.ptr, source.memory.len, static_cast<off_t>(offset));
      if (result < 0) result = -errno;
    }
    Finish([done = std::move(done), result] { done(result); });
  }

  size_t open_files() const { return open_files_; }

  /// Lets what was held back complete. On the loop's thread.
  void Release() {
    holds_back = false;
    for (auto& finish : std::exchange(held_, {})) finish();
  }

  std::atomic<int64_t> forced_result{0};  ///< result of every I/O; 0: its own result
  std::vector<Range> forced_holes{};      ///< for the loop's thread only
  std::atomic<bool> holds_back{false};     ///< completes nothing until Release()
  std::atomic<uint64_t> forced_device{0};  ///< file system of files that are opened; 0: their own

 private:
  void Finish(std::function<void()> finish) {
    if (holds_back) {
      held_.push_back(std::move(finish));
    } else {
      asio::post(loop_.executor(), std::move(finish));
    }
  }

  const std::string folder_;
  transport::EventLoop& loop_;
  std::map<uint64_t, int> open_;
  std::atomic<size_t> open_files_{0};
  uint64_t last_ = 0;
  std::vector<std::function<void()>> held_;
};

}  // namespace warpverbs::inline v0_2::gpuio
