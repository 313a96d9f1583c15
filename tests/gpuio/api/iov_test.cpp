#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/time.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "gpuio/api/published_link.hpp"
#include "gpuio/common/basics.hpp"
#include "gpuio/mount_fixture.hpp"

/// Buffers in the host's memory: names, ownership, other processes.
namespace warpverbs::inline v0_2::gpuio {
namespace {

const uint8_t* IdOf(const hf3fs_iov& iov) { return reinterpret_cast<const uint8_t*>(iov.id); }

TEST(HostIov, IsPublishedUntilItIsDestroyed) {
  ServedMount mount;
  const size_t bytes = OwnBytes();
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), bytes, 0, -1), 0);
  EXPECT_NE(iov.base, nullptr);
  EXPECT_EQ(iov.size, bytes);
  EXPECT_EQ(iov.block_size, 0u);
  EXPECT_EQ(iov.numa, -1);
  EXPECT_STREQ(iov.mount_point, mount.path());
  EXPECT_EQ(mount.Links().size(), 1u);
  EXPECT_EQ(ShmFiles(bytes).size(), 1u);
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  EXPECT_FALSE(hf3fs_iov_is_gpu(&iov));
  iov.base[bytes - 1] = 7;
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(IsZero(iov));
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_TRUE(ShmFiles(bytes).empty());
  EXPECT_EQ(mount.Statistics().host_buffers, 0u);
}

TEST(HostIov, NamesItsBlocks) {
  ServedMount mount;
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 10000, 4096, -1), 0);
  EXPECT_THAT(*mount.Links().begin(), testing::EndsWith(".b4096"));
  hf3fs_iovdestroy(&iov);
}

TEST(HostIov, MayBeDestroyedTwice) {
  ServedMount mount;
  hf3fs_iov iov{}, other{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 100, 0, -1), 0);
  hf3fs_iov copy = iov;
  hf3fs_iovdestroy(&iov);
  ASSERT_EQ(hf3fs_iovcreate(&other, mount.path(), 100, 0, -1), 0);
  hf3fs_iovdestroy(&iov);
  hf3fs_iovdestroy(&copy);
  EXPECT_EQ(mount.Links().size(), 1u) << "a stale handle is nobody's";
  hf3fs_iovdestroy(&other);
  hf3fs_iovdestroy(nullptr);
  hf3fs_iovunlink(nullptr);
  hf3fs_iovunlink(&iov);
}

TEST(HostIov, LosesItsNameByUnlink) {
  ServedMount mount;
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 100, 0, -1), 0);
  const std::string name = *mount.Links().begin();
  hf3fs_iovunlink(&iov);
  EXPECT_TRUE(mount.Links().empty());
  iov.base[0] = 1;
  std::filesystem::create_symlink("/dev/shm/other", mount.IovFolder() + "/" + name);
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(IsZero(iov));
  EXPECT_THAT(mount.Links(), testing::ElementsAre(name)) << "a link that was made later is somebody else's";
}

TEST(HostIov, StaysIfItsNameCannotBeRemoved) {
  ServedMount mount;
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 100, 0, -1), 0);
  const std::string link = mount.IovFolder() + "/" + *mount.Links().begin();
  std::filesystem::remove(link);
  std::filesystem::create_directories(link + "/x");  // unlink() fails
  hf3fs_iovdestroy(&iov);
  EXPECT_NE(iov.iovh, nullptr);
  iov.base[0] = 1;
  std::filesystem::remove_all(link);
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(IsZero(iov));
}

TEST(HostIov, IsOpenedByItsId) {
  ServedMount mount;
  hf3fs_iov iov{}, opened{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 10000, 4096, -1), 0);
  EXPECT_EQ(hf3fs_iovopen(&opened, IdOf(iov), mount.path(), 10000, 0, -1), -ENOENT) << "it has blocks";
  EXPECT_EQ(hf3fs_iovopen(&opened, IdOf(iov), mount.path(), 1 << 20, 4096, -1), -EINVAL) << "it is shorter";
  ASSERT_EQ(hf3fs_iovopen(&opened, IdOf(iov), mount.path(), 10000, 4096, -1), 0);
  EXPECT_NE(opened.base, iov.base);
  iov.base[77] = 42;
  EXPECT_EQ(opened.base[77], 42);
  hf3fs_iovdestroy(&opened);
  EXPECT_TRUE(IsZero(opened));
  EXPECT_EQ(mount.Links().size(), 1u) << "it is not the opener's to remove";
  hf3fs_iovdestroy(&iov);
}

TEST(HostIov, IsOpenedOnlyInDevShm) {
  ServedMount mount;
  const uint8_t id[16] = {};
  const std::string link = mount.IovFolder() + "/" + std::string(32, '0');
  hf3fs_iov iov{};
  for (const char* const target : {"/etc/passwd", "/dev/shm/../passwd", "hf3fs-iov-1"}) {
    std::filesystem::create_symlink(target, link);
    EXPECT_EQ(hf3fs_iovopen(&iov, id, mount.path(), 1, 0, -1), -EINVAL) << target;
    std::filesystem::remove(link);
  }
  std::filesystem::create_symlink("/dev/shm/hf3fs-iov-that-is-absent", link);
  EXPECT_EQ(hf3fs_iovopen(&iov, id, mount.path(), 1, 0, -1), -ENOENT);
  std::filesystem::remove(link);
}

TEST(HostIov, WrapsMemoryThatIsPublished) {
  ServedMount mount;
  hf3fs_iov iov{}, wrapped{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 100, 0, -1), 0);
  ASSERT_EQ(hf3fs_iovwrap(&wrapped, iov.base, IdOf(iov), mount.path(), 100, 0, -1), 0);
  EXPECT_EQ(wrapped.base, iov.base);
  EXPECT_EQ(std::memcmp(wrapped.id, iov.id, 16), 0);
  hf3fs_iovdestroy(&wrapped);
  EXPECT_TRUE(IsZero(wrapped));
  EXPECT_EQ(mount.Links().size(), 1u);
  hf3fs_iovdestroy(&iov);
}

TEST(PublishedLink, IsNotMadeAgainOnceItIsRemoved) {
  const ServedMount mount;
  for (int i = 0; i < 200; ++i) {
    PublishedLink link(mount.path(), std::string(32, 'a'), "/dev/shm/x");
    ASSERT_EQ(link.Create(), 0);
    std::filesystem::remove(mount.IovFolder() + "/" + link.name());  // as if the daemon had been replaced
    std::jthread again([&] {
      while (link.CreateAgain() != ENOENT) std::this_thread::yield();
    });
    EXPECT_EQ(link.Remove(), 0);
    again.join();
    EXPECT_FALSE(link.is_linked());
    ASSERT_TRUE(mount.Links().empty());
  }
}

TEST(HostIov, IsCreatedWhileSignalsArrive) {
  ServedMount mount;
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = [](int) {};
  ASSERT_EQ(sigaction(SIGALRM, &ignore, &before), 0);
  constexpr itimerval kOften{.it_interval = {.tv_sec = 0, .tv_usec = 2000},
                             .it_value = {.tv_sec = 0, .tv_usec = 2000}};
  ASSERT_EQ(setitimer(ITIMER_REAL, &kOften, nullptr), 0);
  hf3fs_iov iov{};
  EXPECT_EQ(hf3fs_iovcreate(&iov, mount.path(), 48 << 20, 0, -1), 0);
  const itimerval never{};
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  hf3fs_iovdestroy(&iov);
}

TEST(HostIov, LeavesNothingAfterManyCycles) {
  ServedMount mount;
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  hf3fs_iov first{};
  ASSERT_EQ(hf3fs_iovcreate(&first, mount.path(), 100, 0, -1), 0);  // keeps the connection to the daemon
  const auto files = descriptors();
  for (int i = 0; i < kCycles; ++i) {
    hf3fs_iov iov{};
    ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), OwnBytes(), 0, -1), 0);
    hf3fs_iovdestroy(&iov);
  }
  // The daemon, in this process, closes the last ones on threads of its own.
  EXPECT_TRUE(Eventually([&] { return descriptors() <= files; })) << descriptors();
  hf3fs_iovdestroy(&first);
  EXPECT_TRUE(ShmFiles(OwnBytes()).empty());
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
