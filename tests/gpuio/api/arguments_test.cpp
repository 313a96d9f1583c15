#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>

#include "gpuio/mount_fixture.hpp"

/// The errors of the C API that need no I/O.
namespace warpverbs::inline v0_2::gpuio {
namespace {

const uint8_t kId[16] = {1, 2, 3};

TEST(IovArguments, AreChecked) {
  const ServedMount mount;
  const std::string long_mount(256, 'm');
  Untouched<hf3fs_iov> iov;
  EXPECT_EQ(hf3fs_iovcreate(nullptr, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, nullptr, 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, "", 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, long_mount.c_str(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, mount.path(), 0, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovopen(nullptr, kId, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovopen(&iov.value, nullptr, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovopen(&iov.value, kId, nullptr, 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovopen(&iov.value, kId, mount.path(), 0, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovopen(&iov.value, kId, mount.path(), 1, 0, -1), -ENOENT);
  EXPECT_EQ(hf3fs_iovwrap(nullptr, &iov, kId, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap(&iov.value, nullptr, kId, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap(&iov.value, &iov, nullptr, mount.path(), 1, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap(&iov.value, &iov, kId, long_mount.c_str(), 1, 0, -1), -EINVAL);
  EXPECT_TRUE(iov.IsUntouched());
}

TEST(IovArguments, MountMustBeServed) {
  const TemporaryFolder folder;
  Untouched<hf3fs_iov> iov;
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, folder.path().c_str(), 1, 0, -1), -ENOENT);
  std::filesystem::create_directories(IovFolderOf(folder.path()));
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, folder.path().c_str(), 1, 0, -1), -EIO) << "there is no daemon";
  EXPECT_TRUE(iov.IsUntouched());
}

TEST(IovArguments, SharedMemoryMayRunOut) {
  const ServedMount mount;
  const std::set<std::string> before = ShmFiles(0);
  Untouched<hf3fs_iov> iov;
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, mount.path(), size_t{1} << 60, 0, -1), -EIO);
  EXPECT_EQ(hf3fs_iovcreate(&iov.value, mount.path(), SIZE_MAX, 0, -1), -EIO);
  EXPECT_TRUE(iov.IsUntouched());
  // Those of other processes grow or go.
  EXPECT_TRUE(Eventually([&] { return std::ranges::includes(before, ShmFiles(0)); }));
}

TEST(RingArguments, AreChecked) {
  const ServedMount mount;
  Untouched<hf3fs_ior> ior;
  EXPECT_EQ(hf3fs_iorcreate(nullptr, mount.path(), 8, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, nullptr, 8, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, "", 8, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), 0, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), -1, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), INT_MAX, true, 0, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), 8, true, 9, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate3(&ior.value, mount.path(), 8, true, 0, 0, -1, -1), -EINVAL);
  EXPECT_EQ(hf3fs_iorcreate4(&ior.value, mount.path(), 8, true, 0, -1, -1, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iorwrap(&ior.value, nullptr, mount.path(), hf3fs_ior_size(8), true, 0, 0, 0, 0), -EINVAL);
  alignas(16) static std::byte memory[16384];
  EXPECT_EQ(hf3fs_iorwrap(&ior.value, memory, mount.path(), 16, true, 0, 0, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iorwrap(&ior.value, memory + 1, mount.path(), hf3fs_ior_size(8), true, 0, 0, 0, 0),
            -EINVAL);
  EXPECT_TRUE(ior.IsUntouched());
  EXPECT_EQ(hf3fs_ior_size(64), 10384u);
  EXPECT_EQ(hf3fs_ior_size(0), 0u);
}

TEST(RingArguments, SubmitSemaphoreMustBeOne) {
  const ServedMount mount;
  const std::string link = SubmitLinkOf(mount.path(), 0);
  std::filesystem::remove(link);
  Untouched<hf3fs_ior> ior;
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), 8, true, 0, -1), -EIO);
  std::filesystem::create_symlink("/tmp/x", link);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), 8, true, 0, -1), -EIO);
  std::filesystem::remove(link);
  std::filesystem::create_symlink("/dev/shm/sem.a/b", link);
  EXPECT_EQ(hf3fs_iorcreate(&ior.value, mount.path(), 8, true, 0, -1), -EIO);
  EXPECT_TRUE(ior.IsUntouched());
  EXPECT_TRUE(mount.Links().empty());
}

TEST(RingArguments, AreCheckedByCallsOnRings) {
  hf3fs_cqe cqe{};
  const hf3fs_ior ior{};
  EXPECT_EQ(hf3fs_submit_ios(nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_submit_ios(&ior), -EINVAL);
  EXPECT_EQ(hf3fs_wait_for_ios(nullptr, &cqe, 1, 1, nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_wait_for_ios(&ior, &cqe, 1, 1, nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_wait_for_ios(&ior, nullptr, 1, 1, nullptr), -EINVAL);
  EXPECT_EQ(hf3fs_io_entries(nullptr), -EINVAL);
  hf3fs_iordestroy(nullptr);
  hf3fs_ior zero{};
  hf3fs_iordestroy(&zero);
}

TEST(SyncArguments, AreChecked) {
  const hf3fs_iov iov{};
  for (const auto sync : {&hf3fs_iovsync_gpu, &hf3fs_iovsync}) {
    EXPECT_EQ(sync(nullptr, 0), -EINVAL);
    EXPECT_EQ(sync(&iov, 2), -EINVAL);
    EXPECT_EQ(sync(&iov, -1), -EINVAL);
    EXPECT_EQ(sync(&iov, 0), 0) << "nothing to do for memory of the host";
    EXPECT_EQ(sync(&iov, 1), 0);
  }
  hf3fs_gpu_ipc_handle_t handle{};
  EXPECT_EQ(hf3fs_iov_export_gpu(nullptr, &handle), -EINVAL);
  EXPECT_EQ(hf3fs_iov_export_gpu(&iov, &handle), -EINVAL);
  hf3fs_iov imported{};
  EXPECT_EQ(hf3fs_iov_import_gpu(&imported, &handle, "/mnt"), -EINVAL) << "a zeroed handle is damaged";
  EXPECT_EQ(hf3fs_iov_import_gpu(&imported, nullptr, "/mnt"), -EINVAL);
  EXPECT_EQ(hf3fs_iov_import_gpu(nullptr, &handle, "/mnt"), -EINVAL);
  EXPECT_FALSE(hf3fs_iov_is_gpu(nullptr));
  EXPECT_EQ(hf3fs_iov_gpu_device(nullptr), -1);
}

TEST(SyncArguments, NumberInNumaMakesNoGpuIov) {
  hf3fs_iov iov{};
  iov.numa = -0x6472;
  EXPECT_FALSE(hf3fs_iov_is_gpu(&iov));
  EXPECT_EQ(hf3fs_iov_mem_type(&iov), HF3FS_MEM_HOST);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
