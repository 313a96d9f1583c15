// ThreadSanitizer tracks file descriptors. It must see the close of each descriptor whose creation it saw.
// Otherwise it mistakes the number's next owner for a user of another thread's file.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

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

}  // namespace
}  // namespace kernel_abi
