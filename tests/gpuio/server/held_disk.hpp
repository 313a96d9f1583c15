#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpuio/common/basics.hpp"
#include "gpuio/server/disk.hpp"
#include "warpverbs/version.hpp"

namespace warpverbs::inline v0_2::gpuio {

/// Passes everything on to another disk.
class WrappedDisk : public Disk {
 public:
  explicit WrappedDisk(std::unique_ptr<Disk> below) : below_(std::move(below)) {}

  void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) override {
    below_->Read(fd, memory, offset, std::move(done));
  }
  void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) override {
    below_->Write(fd, memory, offset, std::move(done));
  }
  void Sync(int fd, bool data_only, Done done) override { below_->Sync(fd, data_only, std::move(done)); }
  void PunchHole(int fd, uint64_t offset, uint64_t bytes, Done done) override {
    below_->PunchHole(fd, offset, bytes, std::move(done));
  }
  int Keep(int socket) override { return below_->Keep(socket); }
  void Release(int kept) override { below_->Release(kept); }
  std::string Describe() const override { return below_->Describe(); }

 private:
  const std::unique_ptr<Disk> below_;
};

using WrapDisk = std::function<std::unique_ptr<Disk>(std::unique_ptr<Disk>)>;

/// Returns a function for FileServerConfig::wrap_disk: its disk calls `before` before the first read.
inline WrapDisk BeforeTheFirstRead(std::function<void()> before) {
  class ReadDisk : public WrappedDisk {
   public:
    ReadDisk(std::unique_ptr<Disk> below, std::function<void()> before)
        : WrappedDisk(std::move(below)), before_(std::move(before)) {}
    void Read(int fd, std::span<uint8_t> memory, uint64_t offset, Done done) override {
      if (before_) std::exchange(before_, {})();
      WrappedDisk::Read(fd, memory, offset, std::move(done));
    }

   private:
    std::function<void()> before_;
  };
  return [before = std::move(before)](std::unique_ptr<Disk> below) {
    return std::make_unique<ReadDisk>(std::move(below), before);
  };
}

/// Holds the writes of a server's disk back, as a disk that hangs does. They reach it once they are released
/// and the server ends, which waits for both, or once they are released on the server's loop.
class HeldWrites {
 public:
  HeldWrites() = default;
  ~HeldWrites() { Release(); }  // a test that fails early ends, too
  HeldWrites(const HeldWrites&) = delete;
  HeldWrites& operator=(const HeldWrites&) = delete;

  /// Returns a function for FileServerConfig::wrap_disk.
  WrapDisk Wrap() {
    return [state = state_](std::unique_ptr<Disk> below) {
      return std::make_unique<HeldDisk>(state, std::move(below));
    };
  }
  size_t held() const { return state_->held; }
  void Release() {
    state_->released = true;
    state_->released.notify_all();
  }

  /// Carries out the writes of a server that goes on.
  void ReleaseOn(transport::EventLoop& loop) {
    Release();
    OnLoop(loop, [this] {
      for (const auto& write : std::exchange(state_->writes, {})) write();
    });
  }

 private:
  struct State {
    std::atomic<size_t> held = 0;
    std::atomic<bool> released = false;
    std::vector<std::function<void()>> writes{};
  };

  class HeldDisk : public WrappedDisk {
   public:
    HeldDisk(std::shared_ptr<State> state, std::unique_ptr<Disk> below)
        : WrappedDisk(std::move(below)), state_(std::move(state)) {}
    ~HeldDisk() override {
      is_ending_ = true;
      for (const auto& write : std::exchange(state_->writes, {})) {
        state_->released.wait(false);
        write();
      }
    }
    void Write(int fd, std::span<const uint8_t> memory, uint64_t offset, Done done) override {
      if (state_->released) return WrappedDisk::Write(fd, memory, offset, std::move(done));
      state_->writes.push_back([this, fd, memory, offset, done = std::move(done)] {
        if (!is_ending_) return WrappedDisk::Write(fd, memory, offset, done);
        static_cast<void>(!pwrite(fd, memory.data(), memory.size(), static_cast<off_t>(offset)));
      });
      ++state_->held;
    }

   private:
    const std::shared_ptr<State> state_;
    bool is_ending_ = false;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace warpverbs::inline v0_2::gpuio
