#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <cerrno>
#include <utility>

#include "gpuio/server/disk.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr unsigned kDiskThreads = 4;

class ThreadDisk : public Disk {
 public:
  explicit ThreadDisk(asio::io_context& context) : context_(context) {}

  ~ThreadDisk() override {
    *closed_ = true;
    threads_.join();
  }

  void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) override {
    Start(std::move(done),
          [=] { return pread(fd, memory.data(), memory.size(), static_cast<off_t>(offset)); });
  }
  void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) override {
    Start(std::move(done),
          [=] { return pwrite(fd, memory.data(), memory.size(), static_cast<off_t>(offset)); });
  }
  void Sync(int fd, bool data_only, Done done) override {
    Start(std::move(done), [=] { return data_only ? fdatasync(fd) : fsync(fd); });
  }
  void PunchHole(int fd, uint64_t offset, uint64_t bytes, Done done) override {
    Start(std::move(done), [=] {
      return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                       static_cast<off_t>(bytes));
    });
  }
  // A thread in a write ends after it, and the process's sockets close after the last thread.
  int Keep(int) override { return -1; }
  void Release(int) override {}

  std::string Describe() const override { return "threads"; }

 private:
  template <class Call>
  void Start(Done done, const Call& call) {
    asio::post(threads_, [&context = context_, closed = closed_, call, done = std::move(done)]() mutable {
      if (*closed) return;  // it has not begun
      const auto bytes = static_cast<int64_t>(call());
      const int64_t result = bytes < 0 ? -errno : bytes;
      asio::post(context, [closed, result, done = std::move(done)] {
        if (!*closed) done(result);
      });
    });
  }

  asio::io_context& context_;
  const std::shared_ptr<std::atomic<bool>> closed_ = std::make_shared<std::atomic<bool>>(false);
  asio::thread_pool threads_{kDiskThreads};
};

}  // namespace

std::unique_ptr<Disk> MakeThreadDisk(asio::io_context& context) {
  return std::make_unique<ThreadDisk>(context);
}

}  // namespace warpverbs::inline v0_2::gpuio
