#include "gpuio/server/disk.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <asio/io_context.hpp>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "gpuio/common/rig.hpp"
#include "warpverbs/host/dma_buf.hpp"
#include "warpverbs/host/error.hpp"

namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Both disks behave alike.
class Disks : public testing::TestWithParam<const char*> {
 protected:
  Disks() : buffers_(1 << 20), fd_(open((folder_ / "file").c_str(), O_RDWR | O_CREAT, 0600)) {}

  void SetUp() override {
    if (std::string(GetParam()) == "Threads") {
      disk_ = MakeThreadDisk(context_);
      return;
    }
    try {
      disk_ = MakeUringDisk(context_, buffers_, 4);
    } catch (const host::Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { disk_.reset(); }

  /// Runs the loop until so many operations have ended.
  void RunUntil(size_t ended) {
    const auto deadline = std::chrono::steady_clock::now() + kTestTimeout;
    while (results_.size() < ended && std::chrono::steady_clock::now() < deadline) {
      context_.restart();
      context_.run_one_for(std::chrono::milliseconds(100));
    }
    ASSERT_EQ(results_.size(), ended);
  }
  Disk::Done Note() {
    return [this](int64_t result) { results_.push_back(result); };
  }
  std::span<uint8_t> Part(size_t begin, size_t bytes) { return std::span(buffers_).subspan(begin, bytes); }

  TemporaryFolder folder_;
  asio::io_context context_;
  std::vector<uint8_t> buffers_;
  host::FileDescriptor fd_;
  std::unique_ptr<Disk> disk_;
  std::vector<int64_t> results_;
};

TEST_P(Disks, WriteAndRead) {
  const auto pattern = Pattern(100'000, 1);
  std::copy(pattern.begin(), pattern.end(), buffers_.begin());
  disk_->Write(fd_.get(), Part(0, pattern.size()), 4321, Note());
  RunUntil(1);
  disk_->Read(fd_.get(), Part(500'000, 200'000), 4321, Note());
  RunUntil(2);
  EXPECT_EQ(results_, (std::vector<int64_t>{100'000, 100'000})) << "the read ends at the end of the file";
  EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), buffers_.begin() + 500'000));
}

TEST_P(Disks, ReportErrors) {
  disk_->Read(-1, Part(0, 10), 0, Note());
  RunUntil(1);
  disk_->Sync(-1, false, Note());
  RunUntil(2);
  EXPECT_EQ(results_, (std::vector<int64_t>{-EBADF, -EBADF}));
}

TEST_P(Disks, SyncAndPunchHoles) {
  disk_->Write(fd_.get(), Part(0, 1 << 20), 0, Note());
  RunUntil(1);
  disk_->Sync(fd_.get(), true, Note());
  RunUntil(2);
  struct stat before, after;
  ASSERT_EQ(fstat(fd_.get(), &before), 0);
  disk_->PunchHole(fd_.get(), 0, 512 << 10, Note());
  RunUntil(3);
  ASSERT_EQ(fstat(fd_.get(), &after), 0);
  EXPECT_EQ(results_[1], 0);
  if (results_[2] == 0) {
    EXPECT_LT(after.st_blocks, before.st_blocks);
  }
  EXPECT_EQ(after.st_size, before.st_size);
}

TEST_P(Disks, TakeMoreOperationsThanTheirQueuesHold) {
  constexpr size_t kOperations = 5000;
  for (size_t i = 0; i < kOperations; ++i) disk_->Write(fd_.get(), Part(0, 4096), i % 200 * 4096, Note());
  RunUntil(kOperations);
  EXPECT_EQ(std::count(results_.begin(), results_.end(), 4096), static_cast<int64_t>(kOperations));
}

TEST_P(Disks, WaitForTheKernelWhenTheyEndAndCallNothing) {
  for (size_t i = 0; i < 100; ++i) disk_->Write(fd_.get(), Part(0, 1 << 20), i << 20, Note());
  context_.poll_one();
  const size_t ended = results_.size();
  disk_.reset();
  std::fill(buffers_.begin(), buffers_.end(), uint8_t{1});  // nobody reads this
  context_.restart();
  context_.poll();
  EXPECT_EQ(results_.size(), ended);
}

TEST_P(Disks, MayEndInACallback) {
  for (size_t i = 0; i < 10; ++i) {
    disk_->Read(fd_.get(), Part(0, 4096), 0, [this](int64_t result) {
      results_.push_back(result);
      disk_.reset();
    });
  }
  RunUntil(1);
}

TEST_P(Disks, KeepSocketsUntilTheyAreReleasedOrTheDiskEnds) {
  if (std::string(GetParam()) == "Threads")
    GTEST_SKIP() << "the process itself stays until threads have written";
  const auto make = [](int(&ends)[2]) { ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0); };
  const auto is_closed = [](int end) {
    char byte;
    return recv(end, &byte, 1, MSG_DONTWAIT) == 0;
  };
  int released[2], left[2];
  make(released), make(left);
  const int kept = disk_->Keep(released[0]);
  ASSERT_GE(kept, 0);
  ASSERT_GE(disk_->Keep(left[0]), 0);
  close(released[0]), close(left[0]);
  EXPECT_FALSE(is_closed(released[1]));
  disk_->Release(kept);
  EXPECT_TRUE(Eventually([&] { return is_closed(released[1]); }));
  EXPECT_FALSE(is_closed(left[1]));
  disk_.reset();
  EXPECT_TRUE(Eventually([&] { return is_closed(left[1]); }));
  close(released[1]), close(left[1]);
}

TEST_P(Disks, KeepNoMoreSocketsThanTheyWereMadeFor) {
  if (std::string(GetParam()) == "Threads")
    GTEST_SKIP() << "the process itself stays until threads have written";
  int kept = 0;
  for (int i = 0; i < 4; ++i) EXPECT_GE(kept = disk_->Keep(fd_.get()), 0);
  EXPECT_EQ(disk_->Keep(fd_.get()), -1);
  disk_->Release(kept);
  EXPECT_GE(disk_->Keep(fd_.get()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Disks, testing::Values("Uring", "Threads"),
                         [](const auto& of) { return std::string(of.param); });

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
