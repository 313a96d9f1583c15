#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <future>
#include <vector>

#include "gpuio/api/shm_file.hpp"
#include "gpuio/control/owned_file.hpp"
#include "gpuio/mount_fixture.hpp"
#include "host/memory/registration_calls.hpp"

/// Applications that come and go.
namespace warpverbs::inline v0_2::gpuio {
namespace {

/// Runs work in a child process that then waits to be killed.
///
/// @param work  returns whether it succeeded
pid_t StartChild(const std::function<bool()>& work) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a test that ends early does not kill it
    const char done = work() ? 'y' : 'n';
    if (write(ends[1], &done, 1) != 1) _exit(1);
    while (true) pause();
  }
  close(ends[1]);
  char done = 0;
  const bool succeeded = read(ends[0], &done, 1) == 1 && done == 'y';
  close(ends[0]);
  if (succeeded) return child;
  kill(child, SIGKILL);
  return -1;
}

/// Starts a child that reads the file "file" into a buffer, and does not wait for it.
pid_t StartReader(const ServedMount& mount, size_t bytes) {
  return StartChild([&] {
    hf3fs_iov iov{};
    hf3fs_ior ior{};
    const int fd = open(mount.File("file").c_str(), O_RDONLY);
    return hf3fs_iovcreate(&iov, mount.path(), bytes, 0, -1) == 0 &&
           hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1) == 0 && hf3fs_reg_fd(fd, 0) <= 0 &&
           hf3fs_prep_io(&ior, &iov, true, iov.base, fd, 0, 4, nullptr) >= 0 && hf3fs_submit_ios(&ior) == 0;
  });
}

void Kill(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST(Daemon, ForgetsAClientThatIsKilled) {
  ServedMount mount;
  mount.WriteFile("file", "text");
  const size_t bytes = OwnBytes();
  const pid_t child = StartReader(mount, bytes);
  ASSERT_GT(child, 0);
  const DaemonStatistics meanwhile = mount.Statistics();
  EXPECT_EQ(meanwhile.clients, 1u);
  EXPECT_EQ(meanwhile.host_buffers, 1u);
  EXPECT_EQ(meanwhile.rings, 1u);
  EXPECT_EQ(meanwhile.files, 1u);
  ASSERT_EQ(mount.Links().size(), 2u);
  const std::string ring = std::filesystem::read_symlink(mount.IovFolder() + "/" + *mount.Links().rbegin());
  EXPECT_EQ(ShmFiles(bytes).size(), 1u);
  EXPECT_TRUE(std::filesystem::exists(ring));
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  const DaemonStatistics after = mount.Statistics();
  EXPECT_EQ(after.host_buffers, 0u);
  EXPECT_EQ(after.rings, 0u);
  EXPECT_EQ(after.files, 0u);
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_TRUE(ShmFiles(bytes).empty());
  EXPECT_FALSE(std::filesystem::exists(ring));
  EXPECT_EQ(mount.files().open_files(), 0u);
}

TEST(Daemon, ForgetsAClientThatIsKilledWithIoUnderWay) {
  ServedMount mount;
  mount.WriteFile("file", "text");
  mount.files().holds_back = true;
  const pid_t child = StartReader(mount, 4096);
  ASSERT_GT(child, 0);
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  EXPECT_EQ(mount.Statistics().in_flight, 1u);
  mount.OnLoop([&] { mount.files().Release(); });
  EXPECT_EQ(mount.Statistics().in_flight, 0u);
  EXPECT_EQ(mount.Statistics().rings, 0u);
}

TEST(Daemon, KeepsTheParentsBuffersWhenItsChildEnds) {
  ServedMount mount;
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  const pid_t child = StartChild([&] {
    hf3fs_iovdestroy(&iov);  // the child's copy
    hf3fs_iov own{};
    return hf3fs_iovcreate(&own, mount.path(), 4096, 0, -1) == 0;
  });
  ASSERT_GT(child, 0);
  EXPECT_EQ(mount.Statistics().clients, 2u);
  EXPECT_EQ(mount.Links().size(), 2u);
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 1; }));
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  EXPECT_EQ(mount.Links().size(), 1u);
  iov.base[0] = 1;
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(mount.Links().empty());
}

TEST(Daemon, KeepsTheParentsFilesWhenItsChildDeregistersThem) {
  ServedMount mount;
  const OpenedHere file(mount.File("file"), O_RDWR | O_CREAT);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  const pid_t child = StartChild([&] {
    // One of these has the number that the connection to the daemon had.
    std::array<int, 64> opened{};
    for (int& fd : opened) fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    hf3fs_dereg_fd(file.fd);
    const bool are_open = std::ranges::all_of(opened, [](int fd) { return fcntl(fd, F_GETFD) >= 0; });
    return are_open && hf3fs_reg_fd(file.fd, 0) <= 0;
  });
  ASSERT_GT(child, 0);
  EXPECT_EQ(mount.Statistics().clients, 2u);
  EXPECT_EQ(mount.Statistics().files, 2u);
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 1; }));
  EXPECT_EQ(mount.Statistics().files, 1u);
  hf3fs_dereg_fd(file.fd);
  EXPECT_EQ(mount.files().open_files(), 0u);
}

TEST(Daemon, ServesABufferToTheProcessThatOpensIt) {
  ServedMount mount;
  mount.WriteFile("file", "text");
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  const pid_t child = StartChild([&] {
    hf3fs_iov opened{};
    hf3fs_ior ior{};
    hf3fs_cqe cqe{};
    const int fd = open(mount.File("file").c_str(), O_RDONLY);
    return hf3fs_iovopen(&opened, reinterpret_cast<const uint8_t*>(iov.id), mount.path(), 4096, 0, -1) == 0 &&
           hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1) == 0 && hf3fs_reg_fd(fd, 0) <= 0 &&
           hf3fs_prep_io(&ior, &opened, true, opened.base + 5, fd, 0, 4, nullptr) >= 0 &&
           hf3fs_submit_ios(&ior) == 0 && hf3fs_wait_for_ios(&ior, &cqe, 1, 1, nullptr) == 1 &&
           cqe.result == 4;
  });
  ASSERT_GT(child, 0);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(iov.base) + 5, 4), "text");
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 1; }));
  hf3fs_iovdestroy(&iov);
}

TEST(Daemon, LosesABufferWhoseLinkSomebodyRemoves) {
  ServedMount mount;
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  std::filesystem::remove(mount.IovFolder() + "/" + *mount.Links().begin());
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().host_buffers == 0; }));
  hf3fs_iovdestroy(&iov);
}

TEST(Daemon, RemovesTheMemoryOfAClientThatIsKilledAfterUnlink) {
  ServedMount mount;
  const size_t bytes = OwnBytes();
  const pid_t child = StartChild([&] {
    hf3fs_iov iov{};
    if (hf3fs_iovcreate(&iov, mount.path(), bytes, 0, -1) != 0) return false;
    hf3fs_iovunlink(&iov);
    return true;
  });
  ASSERT_GT(child, 0);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().host_buffers == 0; }));
  EXPECT_EQ(ShmFiles(bytes).size(), 1u);
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  EXPECT_TRUE(ShmFiles(bytes).empty());
}

TEST(OwnedFile, IsRemovedByTheNextDaemonIfItsOwnerWasKilled) {
  const std::string name = kBufferFilePrefix + std::string("killed-") + std::to_string(getpid());
  const std::string path = "/dev/shm/" + name;
  const pid_t child = StartChild([&] {
    int error = 0;
    return ShmFile::Create(name, 4096, -1, error).release() != nullptr;  // never destroyed
  });
  ASSERT_GT(child, 0);
  { const ServedMount mount; }
  EXPECT_TRUE(std::filesystem::exists(path)) << "its owner lives";
  Kill(child);
  { const ServedMount mount; }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(OwnedFile, IsToldFromOtherFiles) {
  const std::string name = kBufferFilePrefix + std::string("foreign-") + std::to_string(getpid());
  const std::string path = "/dev/shm/" + name;
  std::ofstream(path) << "of another program";
  RemoveIfAbandoned(name);
  EXPECT_TRUE(std::filesystem::exists(path));
  std::filesystem::remove(path);
}

TEST(Daemon, ServesManyClientsAtATime) {
  constexpr int kClients = 16;
  ServedMount mount;
  mount.WriteFile("file", std::string(100'000, 'x'));
  std::vector<pid_t> children;
  for (int i = 0; i < kClients; ++i) {
    children.push_back(StartChild([&] {
      hf3fs_iov iov{};
      hf3fs_ior ior{};
      const int fd = open(mount.File("file").c_str(), O_RDONLY);
      if (hf3fs_iovcreate(&iov, mount.path(), 100'000, 0, -1) != 0) return false;
      if (hf3fs_iorcreate(&ior, mount.path(), 32, true, 0, -1) != 0 || hf3fs_reg_fd(fd, 0) > 0) return false;
      for (int round = 0; round < 20; ++round) {
        for (int io = 0; io < 32; ++io)
          if (hf3fs_prep_io(&ior, &iov, true, iov.base, fd, 0, 100'000, nullptr) < 0) return false;
        hf3fs_submit_ios(&ior);
        hf3fs_cqe cqes[32];
        if (hf3fs_wait_for_ios(&ior, cqes, 32, 32, nullptr) != 32) return false;
      }
      return iov.base[99'999] == 'x';
    }));
    ASSERT_GT(children.back(), 0);
  }
  EXPECT_EQ(mount.Statistics().clients, static_cast<uint64_t>(kClients));
  EXPECT_EQ(mount.Statistics().reads, static_cast<uint64_t>(kClients) * 20 * 32);
  for (const pid_t child : children) Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  EXPECT_TRUE(mount.Links().empty());
}

/// Holds back registrations of the daemon, which is in this process.
struct HeldDaemon : testing::Test {
  HeldDaemon() { host::HoldRegistrations(true); }
  ~HeldDaemon() override { host::HoldRegistrations(false); }

  /// Starts to create a buffer, which waits for its registration.
  static std::future<int> Create(const ServedMount& mount, hf3fs_iov& iov) {
    auto created = std::async(std::launch::async,
                              [&] { return hf3fs_iovcreate(&iov, mount.path(), OwnBytes(), 0, -1); });
    EXPECT_TRUE(Eventually([] { return host::HeldRegistrations() > 0; }));
    return created;
  }

  ServedMount mount;
};

/// Ends the wait of registrations, however a test ends: the future of a call that waits for one, which is
/// declared before this, waits in its destructor.
struct Release {
  Release() = default;
  ~Release() { host::HoldRegistrations(false); }
  Release(const Release&) = delete;
  Release& operator=(const Release&) = delete;
};

TEST_F(HeldDaemon, ServesOthersWhileItRegistersMemory) {
  mount.WriteFile("file", "text");
  host::HoldRegistrations(false);
  hf3fs_iov iov{}, late{};
  hf3fs_ior ior{};
  ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), 4096, 0, -1), 0);
  ASSERT_EQ(hf3fs_iorcreate(&ior, mount.path(), 8, true, 0, -1), 0);
  const OpenedHere file(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  host::HoldRegistrations(true);
  auto created = Create(mount, late);
  const Release release;
  ASSERT_GE(hf3fs_prep_io(&ior, &iov, true, iov.base, file.fd, 0, 4, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
  EXPECT_EQ(WaitForOne(ior).result, 4);
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  host::HoldRegistrations(false);
  EXPECT_EQ(GetInTime(std::move(created)), 0);
  EXPECT_EQ(mount.Statistics().host_buffers, 2u);
  hf3fs_dereg_fd(file.fd);
  hf3fs_iordestroy(&ior);
  hf3fs_iovdestroy(&late);
  hf3fs_iovdestroy(&iov);
}

TEST_F(HeldDaemon, ForgetsAClientWhoseMemoryItRegisters) {
  const size_t bytes = OwnBytes();
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    hf3fs_iov iov{};
    hf3fs_iovcreate(&iov, mount.path(), bytes, 0, -1);  // does not return
    _exit(1);
  }
  EXPECT_TRUE(Eventually([] { return host::HeldRegistrations() > 0; }));
  EXPECT_EQ(ShmFiles(bytes).size(), 1u);
  Kill(child);
  EXPECT_TRUE(Eventually([&] { return mount.Statistics().clients == 0; }));
  EXPECT_TRUE(ShmFiles(bytes).empty());
  EXPECT_TRUE(mount.Links().empty());
  host::HoldRegistrations(false);
  hf3fs_iov iov{};
  EXPECT_EQ(hf3fs_iovcreate(&iov, mount.path(), bytes, 0, -1), 0) << "the daemon goes on";
  EXPECT_EQ(mount.Statistics().host_buffers, 1u);
  hf3fs_iovdestroy(&iov);
}

TEST_F(HeldDaemon, EndsWhileItRegistersMemory) {
  hf3fs_iov iov{};
  auto created = Create(mount, iov);
  auto ended = std::async(std::launch::async, [&] { mount.Stop(); });
  const Release release;
  EXPECT_TRUE(Eventually([&] { return mount.Links().empty(); })) << "the daemon removes them as it ends";
  host::HoldRegistrations(false);
  GetInTime(std::move(ended));
  EXPECT_EQ(GetInTime(std::move(created)), -EIO);
}

TEST_F(HeldDaemon, KeepsTheMemoryOfABufferWhoseLinkIsRemovedMeanwhile) {
  hf3fs_iov iov{};
  auto created = Create(mount, iov);
  const Release release;
  for (const std::string& link : mount.Links()) std::filesystem::remove(mount.IovFolder() + "/" + link);
  EXPECT_EQ(created.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout)
      << "the application would free memory that is being registered";
  host::HoldRegistrations(false);
  EXPECT_EQ(GetInTime(std::move(created)), -ECANCELED);
  EXPECT_TRUE(ShmFiles(OwnBytes()).empty());
  EXPECT_EQ(mount.Statistics().host_buffers, 0u);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
