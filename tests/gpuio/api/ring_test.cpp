#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <thread>

#include "gpuio/mount_fixture.hpp"
#include "gpuio/ring/layout.hpp"

/// Rings and their I/O on memory of the host.
namespace warpverbs::inline v0_2::gpuio {
namespace {

using testing::EndsWith;

/// A mount with a file of 10,000 letters, a buffer, and rings of both directions.
struct HostRing : testing::Test {
  static constexpr size_t kBytes = 20'000;

  void SetUp() override {
    for (size_t i = 0; i < 10'000; ++i) text += static_cast<char>('a' + i % 26);
    mount.WriteFile("file", text);
    ASSERT_EQ(hf3fs_iovcreate(&iov, mount.path(), kBytes, 0, -1), 0);
    ASSERT_EQ(hf3fs_iorcreate(&reads, mount.path(), 8, true, 0, -1), 0);
    ASSERT_EQ(hf3fs_iorcreate(&writes, mount.path(), 8, false, 0, -1), 0);
    file.emplace(mount.File("file"), O_RDWR);
    ASSERT_LE(hf3fs_reg_fd(file->fd, 0), 0);
  }
  void TearDown() override {
    hf3fs_dereg_fd(file->fd);
    hf3fs_iordestroy(&writes);
    hf3fs_iordestroy(&reads);
    hf3fs_iovdestroy(&iov);
  }

  int Prepare(size_t at, size_t offset, uint64_t bytes, const void* userdata = nullptr) {
    return hf3fs_prep_io(&reads, &iov, true, iov.base + at, file->fd, offset, bytes, userdata);
  }
  int64_t Read(size_t at, size_t offset, uint64_t bytes) {
    EXPECT_GE(Prepare(at, offset, bytes), 0);
    EXPECT_EQ(hf3fs_submit_ios(&reads), 0);
    return WaitForOne(reads).result;
  }
  std::string Contents(size_t at, size_t bytes) const {
    return {reinterpret_cast<char*>(iov.base) + at, bytes};
  }

  ServedMount mount;
  std::string text;
  hf3fs_iov iov{};
  hf3fs_ior reads{}, writes{};
  std::optional<OpenedHere> file;
};

TEST_F(HostRing, ReadsAnyRange) {
  EXPECT_EQ(Read(0, 0, 10'000), 10'000);
  EXPECT_EQ(Contents(0, 10'000), text);
  EXPECT_EQ(Read(7777, 13, 1), 1);
  EXPECT_EQ(Contents(7777, 1), text.substr(13, 1));
  EXPECT_EQ(Read(3, 4095, 4099), 4099);
  EXPECT_EQ(Contents(3, 4099), text.substr(4095, 4099));
}

TEST_F(HostRing, ReadsLessAtTheEndOfTheFile) {
  std::memset(iov.base, '#', kBytes);
  EXPECT_EQ(Read(0, 9'990, 100), 10);
  EXPECT_EQ(Contents(0, 11), text.substr(9'990) + "#") << "bytes behind the end stay as they are";
  EXPECT_EQ(Read(0, 10'000, 100), 0);
  EXPECT_EQ(Read(0, size_t{1} << 40, 100), 0);
}

TEST_F(HostRing, WritesAnyRange) {
  std::memcpy(iov.base + 5, "HELLO", 5);
  ASSERT_GE(hf3fs_prep_io(&writes, &iov, false, iov.base + 5, file->fd, 9'998, 5, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&writes), 0);
  EXPECT_EQ(WaitForOne(writes).result, 5);
  EXPECT_EQ(mount.ReadFile("file"), text.substr(0, 9'998) + "HELLO");
}

TEST_F(HostRing, ReturnsIndexAndUserdata) {
  std::map<int, const void*> expected;
  for (size_t i = 0; i < 8; ++i) expected[Prepare(100 * i, i, 100, iov.base + i)] = iov.base + i;
  ASSERT_EQ(expected.size(), 8u);
  EXPECT_EQ(Prepare(0, 0, 1), -EAGAIN);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  std::map<int, const void*> found;
  hf3fs_cqe cqes[8];
  while (found.size() < 8) {
    const int count = hf3fs_wait_for_ios(&reads, cqes, 8, 1, nullptr);
    ASSERT_GT(count, 0);
    for (int i = 0; i < count; ++i) found[cqes[i].index] = cqes[i].userdata;
  }
  EXPECT_EQ(found, expected);
  EXPECT_EQ(hf3fs_io_entries(&reads), 8);
}

TEST_F(HostRing, ChecksArgumentsInTheirOrder) {
  uint8_t* const base = iov.base;
  const int fd = file->fd;
  const auto prepare = [&](const hf3fs_ior* ior, const hf3fs_iov* buffer, bool read, void* ptr, int number,
                           uint64_t bytes) {
    return hf3fs_prep_io(ior, buffer, read, ptr, number, 0, bytes, nullptr);
  };
  EXPECT_EQ(prepare(nullptr, &iov, true, base, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, nullptr, true, base, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, nullptr, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, false, base, fd, 1), -EINVAL) << "the ring reads";
  EXPECT_EQ(prepare(&reads, &iov, true, base, fd, 0), -EINVAL);
  hf3fs_iov no_base = iov;
  no_base.base = nullptr;
  EXPECT_EQ(prepare(&reads, &no_base, true, base, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base - 1, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base + kBytes, fd, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base + 1, fd, kBytes), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base + 1, fd, UINT64_MAX), -EINVAL) << "the sum wraps";
  EXPECT_EQ(prepare(&reads, &iov, true, base + kBytes, 12345, 1), -EINVAL)
      << "the range comes before the file";
  EXPECT_EQ(prepare(&reads, &iov, true, base, INT_MIN, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base, INT_MAX, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base, -INT_MAX, 1), -EINVAL);
  EXPECT_EQ(prepare(&reads, &iov, true, base, 0, 1), -EBADF);
}

TEST_F(HostRing, NeverTouchesTheMemory) {
  hf3fs_iov high = iov;
  high.base = reinterpret_cast<uint8_t*>(UINT64_MAX - 99);
  high.size = 100;
  EXPECT_EQ(hf3fs_prep_io(&reads, &high, true, high.base + 50, file->fd, 0, 51, nullptr), -EINVAL);
  EXPECT_GE(hf3fs_prep_io(&reads, &high, true, high.base + 50, file->fd, 0, 49, nullptr), 0);
}

TEST_F(HostRing, ChecksTheModeOfTheFile) {
  const OpenedHere reading(mount.File("file"), O_RDONLY), writing(mount.File("file"), O_WRONLY);
  ASSERT_LE(hf3fs_reg_fd(reading.fd, 0), 0);
  const int negative = hf3fs_reg_fd(writing.fd, 0);
  ASSERT_LE(negative, 0);
  EXPECT_EQ(hf3fs_prep_io(&writes, &iov, false, iov.base, reading.fd, 0, 1, nullptr), -EACCES);
  EXPECT_EQ(hf3fs_prep_io(&reads, &iov, true, iov.base, writing.fd, 0, 1, nullptr), -EACCES);
  EXPECT_EQ(hf3fs_prep_io(&reads, &iov, true, iov.base, negative, 0, 1, nullptr), -EACCES);
  hf3fs_dereg_fd(reading.fd);
  hf3fs_dereg_fd(writing.fd);
}

TEST_F(HostRing, WaitsUntilTheTimeIsOver) {
  hf3fs_cqe cqe{};
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, &cqe, 0, 0, nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, &cqe, -1, 0, nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, &cqe, 1, 0, nullptr), 0) << "it need not wait";
  const timespec past{.tv_sec = 1, .tv_nsec = 0};
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, &cqe, 1, 1, &past), 0);
  timespec soon{};
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 1;
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, &cqe, 1, 1, &soon), 0);
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  EXPECT_TRUE(now.tv_sec > soon.tv_sec || (now.tv_sec == soon.tv_sec && now.tv_nsec >= soon.tv_nsec));
}

TEST_F(HostRing, ReturnsFewerCompletionsThanWantedAfterTheTime) {
  ASSERT_GE(Prepare(0, 0, 10), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  hf3fs_cqe cqes[4];
  timespec soon{};
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 2;
  EXPECT_EQ(hf3fs_wait_for_ios(&reads, cqes, 4, 1000, &soon), 1);
}

TEST_F(HostRing, WaitingTakesThePostsOfTheCompletionsItTakes) {
  hf3fs_cqe cqes[8];
  for (int round = 0; round < 50; ++round) {
    for (int i = 0; i < 8; ++i) ASSERT_GE(Prepare(0, 0, 10), 0);
    ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
    ASSERT_EQ(hf3fs_wait_for_ios(&reads, cqes, 8, 8, nullptr), 8);
  }
  mount.Statistics();  // the daemon's thread has posted all
  int posts = 0;
  ASSERT_EQ(sem_getvalue(RingMemory(reinterpret_cast<std::byte*>(reads.iov.base), 8).semaphore(), &posts), 0);
  EXPECT_LE(posts, 8) << "the next waits would not sleep";
}

TEST_F(HostRing, ServesAMountByAnySpelling) {
  const TemporaryFolder other;
  std::filesystem::create_symlink(mount.path(), other / "link");
  const std::string relative = std::filesystem::relative(mount.path());
  for (const std::string& spelling : {mount.path() + std::string("/"), (other / "link").string(), relative}) {
    hf3fs_ior ior{};
    hf3fs_iov buffer{};
    ASSERT_EQ(hf3fs_iovcreate(&buffer, spelling.c_str(), 100, 0, -1), 0);
    ASSERT_EQ(hf3fs_iorcreate(&ior, spelling.c_str(), 8, true, 0, -1), 0);
    EXPECT_EQ(buffer.mount_point, spelling);
    ASSERT_GE(hf3fs_prep_io(&ior, &buffer, true, buffer.base, file->fd, 0, 10, nullptr), 0);
    ASSERT_EQ(hf3fs_submit_ios(&ior), 0);
    EXPECT_EQ(WaitForOne(ior).result, 10) << spelling;
    EXPECT_EQ(mount.Statistics().clients, 1u);
    hf3fs_iordestroy(&ior);
    hf3fs_iovdestroy(&buffer);
  }
}

TEST_F(HostRing, RefusesIoOnWhatItDoesNotKnow) {
  hf3fs_iov unknown = iov;
  unknown.id[0] = static_cast<char>(unknown.id[0] + 1);
  ASSERT_GE(hf3fs_prep_io(&reads, &unknown, true, unknown.base, file->fd, 0, 1, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  EXPECT_EQ(WaitForOne(reads).result, -EINVAL);

  hf3fs_iov larger = iov;  // the daemon knows better
  larger.size = 1 << 30;
  ASSERT_GE(hf3fs_prep_io(&reads, &larger, true, larger.base + (1 << 20), file->fd, 0, 1, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  EXPECT_EQ(WaitForOne(reads).result, -EINVAL);
  EXPECT_EQ(Read(0, SIZE_MAX, 1), -EINVAL) << "no file is that long";

  hf3fs_iovunlink(&iov);
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().host_buffers == 0; }));
  EXPECT_EQ(Read(0, 0, 1), -EINVAL) << "it has no name any more";
}

TEST_F(HostRing, KeepsIoWithinABlock) {
  hf3fs_iov blocks{};
  ASSERT_EQ(hf3fs_iovcreate(&blocks, mount.path(), 4096, 1024, -1), 0);
  const auto read = [&](size_t at, uint64_t bytes) {
    EXPECT_GE(hf3fs_prep_io(&reads, &blocks, true, blocks.base + at, file->fd, 0, bytes, nullptr), 0);
    EXPECT_EQ(hf3fs_submit_ios(&reads), 0);
    return WaitForOne(reads).result;
  };
  EXPECT_EQ(read(0, 1024), 1024);
  EXPECT_EQ(read(1000, 24), 24);
  EXPECT_EQ(read(1000, 25), -EINVAL);
  EXPECT_EQ(read(0, 4096), -EINVAL);
  hf3fs_iovdestroy(&blocks);
}

TEST_F(HostRing, DeregisteringAFileLetsItsIoComplete) {
  for (int i = 0; i < 20; ++i) {
    ASSERT_GE(Prepare(0, 0, 10), 0);  // submitted late, so that the daemon learns of the file's end first
    hf3fs_dereg_fd(file->fd);
    ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
    ASSERT_EQ(WaitForOne(reads).result, 10);
    ASSERT_LE(hf3fs_reg_fd(file->fd, 0), 0);
  }
}

TEST_F(HostRing, ZeroesHoles) {
  std::memset(iov.base, '#', kBytes);
  mount.OnLoop([&] { mount.files().forced_holes = {{2, 3}, {9, 100}, {50, 1}}; });
  EXPECT_EQ(Read(0, 0, 10), 10);
  EXPECT_EQ(Contents(0, 11), "ab" + std::string(3, '\0') + "fghi" + std::string(1, '\0') + "#")
      << "what is behind the result stays as it is";
  EXPECT_EQ(mount.Statistics().bytes_zeroed, 4u);
}

TEST_F(HostRing, RefusesHolesIfItForbidsThem) {
  hf3fs_ior strict{};
  ASSERT_EQ(hf3fs_iorcreate4(&strict, mount.path(), 8, true, 0, 0, -1, HF3FS_IOR_FORBID_READ_HOLES), 0);
  const auto read = [&] {
    EXPECT_GE(hf3fs_prep_io(&strict, &iov, true, iov.base, file->fd, 0, 10, nullptr), 0);
    EXPECT_EQ(hf3fs_submit_ios(&strict), 0);
    return WaitForOne(strict).result;
  };
  EXPECT_EQ(read(), 10);
  std::memset(iov.base, '#', kBytes);
  mount.OnLoop([&] { mount.files().forced_holes = {{2, 3}}; });
  EXPECT_EQ(read(), -ENODATA);
  hf3fs_iordestroy(&strict);
}

TEST_F(HostRing, ReportsErrorsAsTheApiHasThem) {
  const std::map<int64_t, int64_t> errors{
      {-ENOENT, -ENOENT}, {-EACCES, -EACCES},       {-EROFS, -EROFS},         {-ENOSPC, -ENOSPC},
      {-EDQUOT, -ENOSPC}, {-EREMOTEIO, -EREMOTEIO}, {-ECANCELED, -EREMOTEIO}, {-EBADF, -EIO},
      {-12345, -EIO},     {1 << 20, -EIO}};  // more than was asked for
  for (const auto& [from, to] : errors) {
    mount.files().forced_result = from;
    EXPECT_EQ(Read(0, 0, 10), to) << from;
  }
  mount.files().forced_result = 0;
}

TEST_F(HostRing, NamesItsSettings) {
  hf3fs_ior ior{};
  const auto name_of = [&] {
    const std::set<std::string> links = mount.Links();
    std::string name;
    for (const std::string& link : links) {
      if (link.find(".r-4") != std::string::npos) name = link;
    }
    return name;
  };
  ASSERT_EQ(hf3fs_iorcreate4(&ior, mount.path(), 8, true, -4, 20, -1, 2), 0);
  EXPECT_THAT(name_of(), EndsWith(".r-4.t20.f10"));
  EXPECT_EQ(ior.timeout, 20);
  EXPECT_EQ(ior.io_depth, -4);
  EXPECT_EQ(ior.flags, 2u);
  EXPECT_TRUE(ior.for_read);
  hf3fs_iordestroy(&ior);
  EXPECT_EQ(name_of(), "");
  ASSERT_EQ(hf3fs_iorcreate3(&ior, mount.path(), 8, true, -4, -5, 20, -1), 0);
  EXPECT_THAT(name_of(), EndsWith(".r-4.ph.t20"));
  EXPECT_EQ(ior.priority, -5);
  hf3fs_iordestroy(&ior);
  ASSERT_EQ(hf3fs_iorcreate2(&ior, mount.path(), 8, true, -4, 1, -1), 0);
  EXPECT_THAT(name_of(), EndsWith(".r-4.pl"));
  hf3fs_iordestroy(&ior);
}

TEST_F(HostRing, StartsExactBatchesOnly) {
  hf3fs_ior exact{};
  ASSERT_EQ(hf3fs_iorcreate(&exact, mount.path(), 8, true, 3, -1), 0);
  hf3fs_cqe cqes[8];
  for (int i = 0; i < 2; ++i) {
    ASSERT_GE(hf3fs_prep_io(&exact, &iov, true, iov.base, file->fd, 0, 1, nullptr), 0);
    ASSERT_EQ(hf3fs_submit_ios(&exact), 0);
  }
  timespec soon{};
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 1;
  EXPECT_EQ(hf3fs_wait_for_ios(&exact, cqes, 8, 1, &soon), 0);
  ASSERT_GE(hf3fs_prep_io(&exact, &iov, true, iov.base, file->fd, 0, 1, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&exact), 0);
  EXPECT_EQ(hf3fs_wait_for_ios(&exact, cqes, 8, 3, nullptr), 3);
  hf3fs_iordestroy(&exact);
}

TEST_F(HostRing, HoldsAPartialBatchBackUntilItsTimeout) {
  hf3fs_ior partial{};
  ASSERT_EQ(hf3fs_iorcreate4(&partial, mount.path(), 8, true, -4, 600'000, -1, 0), 0);
  for (int i = 0; i < 2; ++i)
    ASSERT_GE(hf3fs_prep_io(&partial, &iov, true, iov.base, file->fd, 0, 1, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&partial), 0);
  const OpenedHere other(mount.File("file"), O_RDONLY);
  ASSERT_LE(hf3fs_reg_fd(other.fd, 0), 0);
  hf3fs_dereg_fd(other.fd);  // the daemon has looked at its rings by now
  EXPECT_EQ(mount.Statistics().in_flight + mount.Statistics().reads, 0u);
  for (int i = 0; i < 2; ++i)
    ASSERT_GE(hf3fs_prep_io(&partial, &iov, true, iov.base, file->fd, 0, 1, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&partial), 0);
  hf3fs_cqe cqes[8];
  EXPECT_EQ(hf3fs_wait_for_ios(&partial, cqes, 8, 4, nullptr), 4) << "a whole batch starts at once";
  hf3fs_iordestroy(&partial);
}

TEST_F(HostRing, FlushesAPartialBatchAfterItsTimeout) {
  for (const auto& [depth, timeout] : {std::pair(-4, 0), {-4, 30}, {-100, 30}, {INT_MIN, 0}}) {
    hf3fs_ior partial{};
    ASSERT_EQ(hf3fs_iorcreate4(&partial, mount.path(), 8, true, depth, timeout, -1, 0), 0);
    hf3fs_cqe cqes[8];
    for (int i = 0; i < 2; ++i)
      ASSERT_GE(hf3fs_prep_io(&partial, &iov, true, iov.base, file->fd, 0, 1, nullptr), 0);
    ASSERT_EQ(hf3fs_submit_ios(&partial), 0);
    EXPECT_EQ(hf3fs_wait_for_ios(&partial, cqes, 8, 2, nullptr), 2) << timeout;
    hf3fs_iordestroy(&partial);
  }
}

TEST_F(HostRing, FailsItsIoIfItsLinkIsRemoved) {
  mount.files().holds_back = true;
  ASSERT_GE(Prepare(0, 0, 10), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  hf3fs_iovunlink(&reads.iov);
  EXPECT_EQ(WaitForOne(reads).result, -EREMOTEIO);
  mount.OnLoop([&] { mount.files().Release(); });
  EXPECT_EQ(Read(0, 0, 10), -EREMOTEIO);
  mount.Stop();
  mount.Start();
  EXPECT_EQ(Read(0, 0, 10), -EREMOTEIO) << "the next daemon does not have it either";
}

TEST_F(HostRing, FailsItsIoIfItIsDamaged) {
  mount.files().holds_back = true;
  ASSERT_GE(Prepare(0, 0, 10), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  RingMemory(reinterpret_cast<std::byte*>(reads.iov.base), 8).sqe_head() = INT_MAX;
  EXPECT_EQ(WaitForOne(reads).result, -EREMOTEIO);
  mount.OnLoop([&] { mount.files().Release(); });
  EXPECT_EQ(Prepare(0, 0, 10), -EIO);
}

TEST_F(HostRing, DestroyingTheBufferWaitsForItsIo) {
  mount.files().holds_back = true;
  ASSERT_GE(Prepare(0, 0, 10), 0);
  ASSERT_EQ(hf3fs_submit_ios(&reads), 0);
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().in_flight == 1; }));
  std::atomic<bool> is_destroyed{false};
  std::jthread destroying([&] {
    hf3fs_iovdestroy(&iov);
    is_destroyed = true;
  });
  ASSERT_TRUE(Eventually([&] { return mount.Statistics().host_buffers == 0; }));
  // Others' requests do not wait for it; by the time they have their replies, it could have ended.
  for (int i = 0; i < 20; ++i) {
    const OpenedHere other(mount.File("file"), O_RDONLY);
    ASSERT_LE(hf3fs_reg_fd(other.fd, 0), 0);
    hf3fs_dereg_fd(other.fd);
  }
  EXPECT_FALSE(is_destroyed) << "the server may still write to it";
  mount.OnLoop([&] { mount.files().Release(); });
  destroying.join();
  EXPECT_EQ(WaitForOne(reads).result, 10);
}

TEST_F(HostRing, IsUsedByTheProcessThatWrapsIt) {
  const int descriptor =
      open(("/dev/shm/" + std::filesystem::read_symlink(mount.IovFolder() + "/" +
                                                        [&] {
                                                          for (const std::string& name : mount.Links())
                                                            if (name.ends_with(".r0")) return name;
                                                          return std::string();
                                                        }())
                              .filename()
                              .string())
               .c_str(),
           O_RDWR | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  const size_t bytes = hf3fs_ior_size(8);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  close(descriptor);
  ASSERT_NE(memory, MAP_FAILED);
  hf3fs_ior wrapped{};
  ASSERT_EQ(hf3fs_iorwrap(&wrapped, memory, mount.path(), bytes, true, 0, 0, 0, 0), 0);
  EXPECT_EQ(hf3fs_io_entries(&wrapped), 8);
  ASSERT_GE(hf3fs_prep_io(&wrapped, &iov, true, iov.base, file->fd, 0, 10, nullptr), 0);
  ASSERT_EQ(hf3fs_submit_ios(&wrapped), 0);
  EXPECT_EQ(WaitForOne(wrapped).result, 10);
  hf3fs_iordestroy(&wrapped);
  EXPECT_EQ(mount.Statistics().rings, 2u);
  munmap(memory, bytes);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
