// ThreadSanitizer tracks file descriptors. It must see the close of each descriptor whose creation it saw.
// Otherwise it mistakes the number's next owner for a user of another thread's file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

#include "verbs/peer.hpp"

namespace kernel_abi {
namespace {

TEST(CloseHook, FreesTheNumberForAnyThread) {
  std::atomic<bool> closed = false;
  std::jthread opener([&] {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    // Relaxed, so that only the kernel orders the two threads' use of a number.
    while (!closed.load(std::memory_order_relaxed)) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::yield();
    }
    std::array<int, 32> files{};
    for (int& file : files) {
      char byte = 0;
      file = openat(AT_FDCWD, "/dev/zero", O_RDONLY | O_CLOEXEC);
      EXPECT_EQ(read(file, &byte, 1), 1);
    }
    for (const int file : files) close(file);
  });
  {
    const verbs::Context context = verbs::Open();
    const verbs::Channel channel(ibv_create_comp_channel(context.get()));
    EXPECT_NE(channel, nullptr);
  }
  closed.store(true, std::memory_order_relaxed);
}

TEST(CloseHook, KeepsTheDeviceIfItsDescriptorsCannotBeCounted) {
  const verbs::Context context = verbs::Open();
  const int original = context->cmd_fd, duplicate = fcntl(original, F_DUPFD_CLOEXEC, 0);
  context->cmd_fd = duplicate;  // a command shows that it is a duplicate
  EXPECT_NE(verbs::Pd(ibv_alloc_pd(context.get())), nullptr);
  context->cmd_fd = original;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);  // the folder of the descriptors cannot be opened
  close(duplicate);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_NE(verbs::Pd(ibv_alloc_pd(context.get())), nullptr) << "the device is closed";
}

std::chrono::nanoseconds ThreadTime() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(CloseHook, TakesTimeInProportionToTheChannels) {
  constexpr size_t kFew = 400, kMany = 4 * kFew, kDescriptorsPerChannel = 3;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < kDescriptorsPerChannel * kMany + 100) GTEST_SKIP() << "needs more descriptors";
  const rlimit all{before.rlim_max, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &all), 0);
  const auto closing = [](size_t channels) {
    const verbs::Context context = verbs::Open();
    std::vector<verbs::Channel> open;
    for (size_t i = 0; i < channels; ++i) open.emplace_back(ibv_create_comp_channel(context.get()));
    EXPECT_NE(open.back(), nullptr);
    const auto start = ThreadTime();
    open.clear();
    return ThreadTime() - start;
  };
  const auto shortest = [&](size_t channels) {
    return std::min({closing(channels), closing(channels), closing(channels)});
  };
  EXPECT_LT(shortest(kMany), 8 * shortest(kFew)) << "4 times as many";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(CloseHook, GivesBackTheChannelsBesideManyOtherDescriptors) {
  constexpr size_t kOthers = 800, kLimit = 1500;
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_cur < kOthers + 100) GTEST_SKIP() << "needs more descriptors";
  const rlimit limit{std::min<rlim_t>(kLimit, before.rlim_cur), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  std::vector<int> others;
  for (size_t i = 0; i < kOthers; ++i) others.push_back(fcntl(other, F_DUPFD_CLOEXEC, 0));
  const verbs::Context context = verbs::Open();
  for (size_t i = 0; i < kLimit; ++i) {
    EXPECT_NE(verbs::Channel(ibv_create_comp_channel(context.get())), nullptr) << "no descriptors are left";
  }
  for (const int file : others) close(file);
  close(other);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace kernel_abi
