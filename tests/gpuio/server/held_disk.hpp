#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpuio/server/disk.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Holds the writes of a server's disk back, as a disk that hangs does. They reach it once they are released
/// and the server ends, which waits for both.
class HeldWrites {
 public:
  HeldWrites() = default;
  ~HeldWrites() { Release(); }  // a test that fails early ends, too
  HeldWrites(const HeldWrites&) = delete;
  HeldWrites& operator=(const HeldWrites&) = delete;

  /// Returns a function for FileServerConfig::wrap_disk.
  std::function<std::unique_ptr<Disk>(std::unique_ptr<Disk>)> Wrap() {
    return [state = state_](std::unique_ptr<Disk> below) {
      return std::make_unique<HeldDisk>(state, std::move(below));
    };
  }
  size_t held() const { return state_->held; }
  void Release() {
    state_->released = true;
    state_->released.notify_all();
  }

 private:
  struct State {
    std::atomic<size_t> held = 0;
    std::atomic<bool> released = false;
  };

  class HeldDisk : public Disk {
   public:
    HeldDisk(std::shared_ptr<State> state, std::unique_ptr<Disk> below)
        : state_(std::move(state)), below_(std::move(below)) {}
    ~HeldDisk() override {
      for (const auto& write : writes_) {
        state_->released.wait(false);
        write();
      }
    }
    void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) override {
      below_->Read(fd, memory, offset, std::move(done));
    }
    void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) override {
      if (state_->released) return below_->Write(fd, memory, offset, std::move(done));
      writes_.push_back([fd, memory, offset, done = std::move(done)] {
        static_cast<void>(!pwrite(fd, memory.data(), memory.size(), static_cast<off_t>(offset)));
      });
      ++state_->held;
    }
    void Sync(int fd, bool data_only, Done done) override { below_->Sync(fd, data_only, std::move(done)); }
    void PunchHole(int fd, uint64_t offset, uint64_t bytes, Done done) override {
      below_->PunchHole(fd, offset, bytes, std::move(done));
    }
    int Keep(int socket) override { return below_->Keep(socket); }
    void Release(int kept) override { below_->Release(kept); }
    std::string Describe() const override { return below_->Describe(); }

   private:
    const std::shared_ptr<State> state_;
    const std::unique_ptr<Disk> below_;
    std::vector<std::function<void()>> writes_;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace warpverbs::inline v0_2::gpuio
