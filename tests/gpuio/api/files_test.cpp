#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "gpuio/mount_fixture.hpp"

/// Mounts and registered files.
namespace warpverbs::inline v0_2::gpuio {
namespace {

TEST(Mount, IsFoundByAnyPathInIt) {
  ServedMount mount;
  std::filesystem::create_directories(mount.File("a/b"));
  char found[256] = "unchanged";
  const int length = static_cast<int>(std::strlen(mount.path())) + 1;
  EXPECT_EQ(hf3fs_extract_mount_point(found, sizeof found, mount.File("a/b/not-yet").c_str()), length);
  EXPECT_STREQ(found, mount.path());
  EXPECT_EQ(hf3fs_extract_mount_point(found, sizeof found, mount.path()), length);
  EXPECT_EQ(hf3fs_extract_mount_point(found, sizeof found, "/proc/self"), -1);
  EXPECT_EQ(hf3fs_extract_mount_point(found, sizeof found, nullptr), -1);
  std::strcpy(found, "unchanged");
  EXPECT_EQ(hf3fs_extract_mount_point(found, length - 1, mount.path()), length);
  EXPECT_STREQ(found, "unchanged") << "it does not fit";
  EXPECT_EQ(hf3fs_extract_mount_point(nullptr, 0, mount.path()), length);
}

TEST(Mount, HasItsFiles) {
  ServedMount mount;
  const OpenedHere inside(mount.File("file"), O_RDWR | O_CREAT), outside("/proc/self/stat", O_RDONLY);
  EXPECT_TRUE(hf3fs_is_hf3fs(inside.fd));
  EXPECT_FALSE(hf3fs_is_hf3fs(outside.fd));
  EXPECT_FALSE(hf3fs_is_hf3fs(-1));
  EXPECT_FALSE(hf3fs_is_hf3fs(INT_MAX));
}

TEST(RegisteredFile, IsKnownToTheDaemonUntilItIsDeregistered) {
  ServedMount mount;
  const OpenedHere file(mount.File("file"), O_RDWR | O_CREAT);
  const int negative = hf3fs_reg_fd(file.fd, 0);
  EXPECT_LT(negative, 0);
  EXPECT_EQ(mount.Statistics().files, 1u);
  EXPECT_EQ(hf3fs_reg_fd(file.fd, 0), EINVAL);
  hf3fs_dereg_fd(file.fd);
  EXPECT_EQ(mount.Statistics().files, 0u);
  EXPECT_EQ(mount.files().open_files(), 0u);
  EXPECT_LE(hf3fs_reg_fd(file.fd, 0), 0);
  hf3fs_dereg_fd(file.fd);
  hf3fs_dereg_fd(file.fd);
  hf3fs_dereg_fd(-1);
}

TEST(RegisteredFile, MayBeRegisteredByTwoDescriptors) {
  ServedMount mount;
  const OpenedHere one(mount.File("file"), O_RDWR | O_CREAT), two(mount.File("file"), O_RDWR),
      three(mount.File("file"), O_RDONLY);
  for (const OpenedHere* const file : {&one, &two, &three}) EXPECT_LE(hf3fs_reg_fd(file->fd, 0), 0);
  EXPECT_EQ(mount.Statistics().files, 2u) << "one for each mode";
  hf3fs_dereg_fd(one.fd);
  EXPECT_EQ(mount.Statistics().files, 2u);
  hf3fs_dereg_fd(two.fd);
  EXPECT_EQ(mount.Statistics().files, 1u);
  hf3fs_dereg_fd(three.fd);
  EXPECT_EQ(mount.Statistics().files, 0u);
}

TEST(RegisteredFile, MayHaveTwoNames) {
  ServedMount mount;
  const OpenedHere one(mount.File("file"), O_RDWR | O_CREAT);
  std::filesystem::create_hard_link(mount.File("file"), mount.File("other"));
  const OpenedHere two(mount.File("other"), O_RDWR);
  EXPECT_LE(hf3fs_reg_fd(one.fd, 0), 0);
  EXPECT_LE(hf3fs_reg_fd(two.fd, 0), 0);
  EXPECT_EQ(mount.Statistics().files, 1u);
  EXPECT_EQ(mount.files().open_files(), 1u);
  hf3fs_dereg_fd(one.fd);
  hf3fs_dereg_fd(two.fd);
  EXPECT_EQ(mount.files().open_files(), 0u);
}

TEST(RegisteredFile, IsNoOtherFileWithItsInode) {
  ServedMount mount;
  const OpenedHere one(mount.File("file"), O_RDONLY | O_CREAT);
  std::filesystem::create_hard_link(mount.File("file"), mount.File("other"));
  const OpenedHere two(mount.File("other"), O_RDONLY), three(mount.File("other"), O_RDWR);
  EXPECT_LE(hf3fs_reg_fd(one.fd, 0), 0);
  mount.files().forced_device = 12'345;  // as if the folder had another file system in it
  EXPECT_EQ(hf3fs_reg_fd(two.fd, 0), EXDEV);
  EXPECT_EQ(hf3fs_reg_fd(three.fd, 0), EXDEV);
  EXPECT_EQ(mount.files().open_files(), 1u);
  hf3fs_dereg_fd(one.fd);
  EXPECT_LE(hf3fs_reg_fd(two.fd, 0), 0);
  hf3fs_dereg_fd(two.fd);
}

TEST(RegisteredFile, MustBeAFileOfAMount) {
  ServedMount mount;
  const OpenedHere outside("/proc/self/stat", O_RDONLY), folder(mount.path(), O_RDONLY | O_DIRECTORY);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(hf3fs_reg_fd(outside.fd, 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(folder.fd, 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(ends[0], 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(-1, 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(INT_MIN, 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(INT_MAX, 0), EBADF);
  EXPECT_EQ(hf3fs_reg_fd(1'000'000, 0), EBADF) << "beyond RLIMIT_NOFILE, or closed";
  close(ends[0]);
  close(ends[1]);
  std::filesystem::create_directories(mount.File("folder"));
  const OpenedHere inner(mount.File("folder"), O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(hf3fs_reg_fd(inner.fd, 0), EISDIR);
}

TEST(RegisteredFile, MustStillHaveItsName) {
  ServedMount mount;
  const OpenedHere removed(mount.File("removed"), O_RDWR | O_CREAT),
      replaced(mount.File("replaced"), O_RDWR | O_CREAT);
  std::filesystem::remove(mount.File("removed"));
  EXPECT_EQ(hf3fs_reg_fd(removed.fd, 0), ENOENT);
  mount.WriteFile("other", "x");
  EXPECT_LE(hf3fs_reg_fd(replaced.fd, 0), 0);
  hf3fs_dereg_fd(replaced.fd);
  EXPECT_EQ(mount.files().open_files(), 0u);
}

TEST(RegisteredFile, KeepsItsNumberAfterTheDescriptorWasClosed) {
  ServedMount mount;
  mount.WriteFile("file", "x");
  int fd = open(mount.File("file").c_str(), O_RDONLY | O_CLOEXEC);
  const int number = fd;
  ASSERT_LE(hf3fs_reg_fd(fd, 0), 0);
  close(fd);
  fd = open(mount.File("file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(fd, number) << "the system gives the lowest number";
  EXPECT_EQ(hf3fs_reg_fd(fd, 0), EINVAL);
  hf3fs_dereg_fd(fd);
  EXPECT_LE(hf3fs_reg_fd(fd, 0), 0);
  hf3fs_dereg_fd(fd);
  close(fd);
}

TEST(PunchHole, MakesRangesZero) {
  ServedMount mount;
  mount.WriteFile("file", std::string(100'000, 'x'));
  const OpenedHere file(mount.File("file"), O_RDWR);
  const size_t start[] = {0, 50'000}, end[] = {10, 50'000};
  const int result = hf3fs_punchhole(file.fd, 2, start, end, 0);
  if (result == -EOPNOTSUPP) GTEST_SKIP() << "this file system has no holes";
  ASSERT_EQ(result, 0);
  EXPECT_EQ(mount.ReadFile("file"), std::string(10, '\0') + std::string(99'990, 'x'));
  const size_t reversed[] = {5};
  const size_t zero[] = {0};
  EXPECT_EQ(hf3fs_punchhole(file.fd, 1, reversed, zero, 0), -EINVAL);
  EXPECT_EQ(hf3fs_punchhole(file.fd, 1, nullptr, end, 0), -EINVAL);
  EXPECT_EQ(hf3fs_punchhole(file.fd, -1, start, end, 0), -EINVAL);
  EXPECT_EQ(hf3fs_punchhole(file.fd, 1, start, end, 1), -EINVAL);
  EXPECT_EQ(hf3fs_punchhole(-1, 1, start, end, 0), -EBADF);
}

TEST(HardLink, MakesASecondName) {
  ServedMount mount;
  mount.WriteFile("file", "text");
  EXPECT_EQ(hf3fs_hardlink(mount.File("file").c_str(), mount.File("second").c_str()), 0);
  EXPECT_EQ(mount.ReadFile("second"), "text");
  EXPECT_EQ(hf3fs_hardlink(mount.File("file").c_str(), mount.File("second").c_str()), -EEXIST);
  EXPECT_EQ(hf3fs_hardlink(mount.File("absent").c_str(), mount.File("third").c_str()), -ENOENT);
  EXPECT_EQ(hf3fs_hardlink(nullptr, "x"), -EINVAL);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
