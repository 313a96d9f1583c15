#include <fcntl.h>
#include <linux/falloc.h>
#include <unistd.h>

#include <asio/post.hpp>
#include <atomic>
#include <cerrno>
#include <utility>

#include "gpuio/server/disk.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

class ThreadDisk : public Disk {
 public:
  ThreadDisk(asio::io_context& context, asio::thread_pool& threads)
      : context_(context), threads_(threads), state_(std::make_shared<State>()) {}

  ~ThreadDisk() override {
    state_->closed = true;
    for (size_t left = state_->under_way; left != 0; left = state_->under_way) state_->under_way.wait(left);
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
  struct State {
    std::atomic<size_t> under_way = 0;
    std::atomic<bool> closed = false;
  };

  template <class Call>
  void Start(Done done, const Call& call) {
    ++state_->under_way;
    asio::post(threads_, [&context = context_, state = state_, call, done = std::move(done)]() mutable {
      const int64_t bytes = state->closed ? -1 : static_cast<int64_t>(call());
      const int64_t result = bytes < 0 ? -errno : bytes;
      if (!state->closed) {
        asio::post(context, [state, result, done = std::move(done)] {
          if (!state->closed) done(result);
        });
      }
      if (--state->under_way == 0) state->under_way.notify_all();
    });
  }

  asio::io_context& context_;
  asio::thread_pool& threads_;
  const std::shared_ptr<State> state_;
};

}  // namespace

std::unique_ptr<Disk> MakeThreadDisk(asio::io_context& context, asio::thread_pool& threads) {
  return std::make_unique<ThreadDisk>(context, threads);
}

}  // namespace warpverbs::inline v0_2::gpuio
