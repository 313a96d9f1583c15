#include <gtest/gtest.h>

#include <cerrno>

#include "gpuio/mount_fixture.hpp"
#include "warpverbs/host/error.hpp"

/// A daemon that ends, and another one in its place.
namespace warpverbs::inline v0_2::gpuio {
namespace {

struct Restart : testing::Test {
  void SetUp() override {
    mount.WriteFile("file", "text");
    ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
    ASSERT_EQ(hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1), 0);
    fd = open(mount.File("file").c_str(), O_RDONLY | O_CLOEXEC);
    ASSERT_LE(hf3fs_reg_fd(fd, 0), 0);
  }
  void TearDown() override {
    hf3fs_dereg_fd(fd);
    close(fd);
    hf3fs_iordestroy(&ior);
    hf3fs_iovdestroy(&iov);
  }
  void Submit() {
    ASSERT_GE(hf3fs_prep_io(&ior, &iov, true, iov.base, fd, 0, 4, nullptr), 0);
    ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
  }

  ServedMount mount;
  hf3fs_iov iov{};
  hf3fs_ior ior{};
  int fd = -1;
};

TEST_F(Restart, NewDaemonServesWhatTheOldOneDid) {
  mount.Stop();
  EXPECT_TRUE(mount.Links().empty());
  mount.Start();
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, 4);
  EXPECT_EQ(mount.Links().size(), 2u);
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  EXPECT_EQ(mount.Statistics().rings, 1u);
  EXPECT_EQ(mount.Statistics().files, 1u);
}

TEST_F(Restart, IoFailsWhileThereIsNoDaemon) {
  mount.Stop();
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, -EREMOTEIO);
  hf3fs_iov other{};
  EXPECT_EQ(hf3fs_iovcreate(&other, mount.path(), 4096, 0, -1), -EIO);
  mount.Start();
  EXPECT_TRUE(Eventually([&] {
    Submit();
    return WaitForOne(ior).result == 4;
  }));
}

TEST_F(Restart, IoThatTheOldDaemonTookFails) {
  mount.files().holds_back = true;
  Submit();
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  mount.Stop();
  mount.Start();
  EXPECT_EQ(WaitForOne(ior).result, -EREMOTEIO);
  mount.OnLoop([&] { mount.files().Release(); });
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, 4);
}

TEST_F(Restart, IsNoticedByAThreadThatPolls) {
  mount.files().holds_back = true;
  Submit();
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  mount.Stop();
  hf3fs_cqe cqe{};
  EXPECT_TRUE(Eventually([&] { return hf3fs_wait_for_ios(&ior, &cqe, 1, 0, nullptr) == 1; }));
  EXPECT_EQ(cqe.result, -EREMOTEIO);
  mount.OnLoop([&] { mount.files().Release(); });
  mount.Start();
  const timespec past{.tv_sec = 1, .tv_nsec = 0};
  EXPECT_TRUE(Eventually([&] {
    Submit();
    EXPECT_TRUE(Eventually([&] { return hf3fs_wait_for_ios(&ior, &cqe, 1, 1, &past) == 1; }));
    return cqe.result == 4;
  }));
}

TEST_F(Restart, HappensManyTimes) {
  for (int i = 0; i < 20; ++i) {
    Submit();
    if (i % 3 == 0) mount.Stop();
    if (i % 3 == 0) mount.Start();
    const int64_t result = WaitForOne(ior).result;
    EXPECT_TRUE(result == 4 || result == -EREMOTEIO) << result;
  }
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, 4);
}

TEST_F(Restart, SecondDaemonIsRefused) {
  EXPECT_THROW(mount.OnLoop([&] {
    transport::EventLoop loop;
    const DaemonConfig config{.mount = mount.path(), .socket_path = std::string(mount.path()) + "/other"};
    const Daemon second(config, loop, mount.files());
  }),
               host::Error);
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, 4);
}

TEST_F(Restart, SecondDaemonAtTheSocketIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THROW(mount.OnLoop([&] {
    transport::EventLoop loop;
    const DaemonConfig config{.mount = folder.path(), .socket_path = mount.File("3fs-virt/socket")};
    const Daemon second(config, loop, mount.files());
  }),
               host::Error);
  Submit();
  EXPECT_EQ(WaitForOne(ior).result, 4);
  hf3fs_iov other{};
  EXPECT_EQ(hf3fs_iovcreate(&other, mount.path(), 4096, 0, -1), 0);
  hf3fs_iovdestroy(&other);
}

TEST(DaemonStart, RemovesWhatAKilledDaemonLeft) {
  const TemporaryFolder folder;
  const std::string iovs = IovFolderOf(folder.path());
  std::filesystem::create_directories(iovs);
  std::filesystem::create_symlink("/dev/shm/hf3fs-iov-x", iovs + "/" + std::string(32, 'a') + ".r0");
  std::filesystem::create_symlink("/dev/shm/sem.hf3fs-submit-x", iovs + "/submit-ios");
  std::filesystem::create_symlink("/tmp/x", DaemonLinkOf(folder.path()));
  std::ofstream(iovs + "/README") << "somebody's own file";
  transport::EventLoop loop;
  LocalFiles files(folder.path(), loop);
  std::promise<void> done;
  asio::post(loop.executor(), [&] {
    {
      const DaemonConfig config{.mount = folder.path(), .socket_path = folder / "socket"};
      const Daemon daemon(config, loop, files);
      EXPECT_FALSE(std::filesystem::is_symlink(iovs + "/" + std::string(32, 'a') + ".r0"));
      EXPECT_EQ(std::filesystem::read_symlink(DaemonLinkOf(folder.path())), folder / "socket");
      EXPECT_NE(std::filesystem::read_symlink(iovs + "/submit-ios"), "/dev/shm/sem.hf3fs-submit-x");
      EXPECT_TRUE(std::filesystem::exists(iovs + "/README"));
    }
    EXPECT_FALSE(std::filesystem::is_symlink(iovs + "/submit-ios"));
    EXPECT_FALSE(std::filesystem::exists(folder / "socket"));
    done.set_value();
  });
  done.get_future().get();
}

TEST(DaemonStart, RefusesAMountThatIsNotThere) {
  transport::EventLoop loop;
  LocalFiles files("/", loop);
  std::promise<void> done;
  asio::post(loop.executor(), [&] {
    EXPECT_THROW(Daemon({.mount = "/proc/absent", .socket_path = "/tmp/x"}, loop, files), host::Error);
    const TemporaryFolder folder;
    EXPECT_THROW(Daemon({.mount = folder.path(), .socket_path = std::string(200, 'x')}, loop, files),
                 host::Error);
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
