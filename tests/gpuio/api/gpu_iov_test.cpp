#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

#include "fake_cuda.hpp"
#include "gpuio/control/names.hpp"
#include "gpuio/common/basics.hpp"
#include "gpuio/mount_fixture.hpp"
#include "warpverbs/host/gpu.hpp"

/// Buffers in GPU memory, which the processor faults on: names, ownership, errors. Each test is a process of
/// its own, because a process finds out once whether GPU memory works.
namespace warpverbs::inline v0_2::gpuio {
namespace {

constexpr size_t kBytes = 100'000;
const uint8_t kId[16] = {1, 2, 3};

std::string TargetOf(const ServedMount& mount) {
  return std::filesystem::read_symlink(mount.IovFolder() + "/" + *mount.Links().begin()).string();
}

struct GpuIov : testing::Test {
  explicit GpuIov(const char* settings = "gpus=2") { fake_cuda::Configure(settings); }
  ServedMount mount;
};
/// A driver that exports no dma-bufs: memory is published by IPC.
struct GpuIovByIpc : GpuIov {
  GpuIovByIpc() : GpuIov("gpus=2,dma_buf=0") {}
};

TEST_F(GpuIov, IsPublishedUntilItIsDestroyed) {
  ASSERT_TRUE(hf3fs_gdr_available());
  EXPECT_EQ(hf3fs_gdr_device_count(), 2);
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 1), 0);
  EXPECT_TRUE(hf3fs_iov_is_gpu(&iov));
  EXPECT_EQ(hf3fs_iov_gpu_device(&iov), 1);
  EXPECT_EQ(hf3fs_iov_device_id(&iov), 1);
  EXPECT_EQ(hf3fs_iov_mem_type(&iov), HF3FS_MEM_DEVICE);
  EXPECT_EQ(iov.size, kBytes);
  EXPECT_EQ(iov.block_size, 0u);
  EXPECT_STREQ(iov.mount_point, mount.path());
  EXPECT_THAT(*mount.Links().begin(), testing::EndsWith(".gdr.d1"));
  const auto uri = GpuUri::Parse(TargetOf(mount));
  ASSERT_TRUE(uri.has_value());
  EXPECT_EQ(uri->device, 1);
  EXPECT_EQ(uri->bytes, kBytes);
  EXPECT_EQ(uri->ipc_handle, std::nullopt) << "the fake's exported memory has none";
  EXPECT_EQ(mount.Statistics().gpu_buffers, 1u);
  EXPECT_NE(fake_cuda::Reach(iov.base, kBytes), nullptr);
  hf3fs_iovdestroy_gpu(&iov);
  EXPECT_TRUE(IsZero(iov));
  EXPECT_FALSE(hf3fs_iov_is_gpu(&iov));
  EXPECT_EQ(hf3fs_iov_gpu_device(&iov), -1);
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_EQ(mount.Statistics().gpu_buffers, 0u);
}

TEST_F(GpuIov, IsDestroyedByThePlainCallToo) {
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_device(&iov, mount.path(), kBytes, 0, 0), 0);
  hf3fs_iov copy = iov;
  hf3fs_iovunlink(&iov);
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_TRUE(hf3fs_iov_is_gpu(&iov)) << "it keeps its memory";
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(IsZero(iov));
  hf3fs_iovdestroy_gpu(&iov);
  hf3fs_iovdestroy_gpu(&copy);
  hf3fs_iovdestroy_gpu(nullptr);
  hf3fs_iovunlink_gpu(nullptr);
}

TEST_F(GpuIov, ChecksItsArguments) {
  Untouched<hf3fs_iov> iov;
  const std::string long_mount(256, 'm');
  EXPECT_EQ(hf3fs_iovcreate_gpu(nullptr, mount.path(), kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, nullptr, kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, "", kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, long_mount.c_str(), kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, mount.path(), 0, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, mount.path(), kBytes, 4096, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, mount.path(), kBytes, 0, -1), -ENODEV);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, mount.path(), kBytes, 0, 2), -ENODEV);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, mount.path(), size_t{1} << 50, 0, 0), -ENOMEM);
  EXPECT_EQ(hf3fs_iovwrap_gpu(&iov.value, nullptr, kId, mount.path(), kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap_gpu(&iov.value, &iov, nullptr, mount.path(), kBytes, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap_gpu(&iov.value, &iov, kId, mount.path(), kBytes, 0, 0), -EINVAL)
      << "memory of the host";
  EXPECT_EQ(hf3fs_iovwrap_gpu(&iov.value, &iov, kId, mount.path(), kBytes, 0, 7), -ENODEV);
  EXPECT_EQ(hf3fs_iovopen_gpu(&iov.value, kId, mount.path(), kBytes, 0, 0), -ENOENT);
  EXPECT_EQ(hf3fs_iovopen_gpu(&iov.value, nullptr, mount.path(), kBytes, 0, 0), -EINVAL);
  EXPECT_TRUE(iov.IsUntouched());
  EXPECT_TRUE(mount.Links().empty());
}

TEST_F(GpuIov, WrapsPartOfAnAllocation) {
  const host::GpuMemory memory(host::Gpu(0), 1 << 20);
  Untouched<hf3fs_iov> bad;
  EXPECT_EQ(hf3fs_iovwrap_gpu(&bad.value, memory.data(), kId, mount.path(), size_t{1} << 30, 0, 0), -EINVAL)
      << "it leaves its allocation";
  EXPECT_EQ(hf3fs_iovwrap_gpu(&bad.value, memory.data(), kId, mount.path(), SIZE_MAX, 0, 0), -EINVAL);
  EXPECT_EQ(hf3fs_iovwrap_gpu(&bad.value, memory.data(), kId, mount.path(), kBytes, 0, 1), -EINVAL)
      << "it is another GPU's";
  EXPECT_TRUE(bad.IsUntouched());
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovwrap_gpu(&iov, memory.data() + 12345, kId, mount.path(), kBytes, 0, 0), 0);
  EXPECT_EQ(iov.base, reinterpret_cast<uint8_t*>(memory.data() + 12345));
  EXPECT_EQ(std::memcmp(iov.id, kId, 16), 0);
  EXPECT_EQ(hf3fs_iovwrap_device(&bad.value, memory.data() + 12345, kId, mount.path(), kBytes, 0, 0),
            -EEXIST);
  EXPECT_EQ(mount.Statistics().gpu_buffers, 1u);
  EXPECT_TRUE(bad.IsUntouched());
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(mount.Links().empty());
  std::byte one{};
  memory.CopyOut(0, {&one, 1});  // the memory is the caller's still
}

TEST_F(GpuIov, LeavesNothingAfterManyCycles) {
  ASSERT_TRUE(hf3fs_gdr_available());
  const fake_cuda::Held before = fake_cuda::HeldNow();
  const auto descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                         std::filesystem::directory_iterator());
  };
  hf3fs_iov first{};
  ASSERT_EQ(hf3fs_iovcreate(&first, mount.path(), 100, 0, -1), 0);
  const auto cycle = [&](int gpu) {
    hf3fs_iov iov{};
    ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, gpu), 0);
    hf3fs_iovdestroy_gpu(&iov);
  };
  cycle(0);  // opens the GPUs
  cycle(1);
  const auto files = descriptors();
  for (int i = 0; i < kCycles; ++i) cycle(i % 2);
  EXPECT_EQ(fake_cuda::HeldNow().allocations, before.allocations);
  // The daemon, in this process, closes the last ones on threads of its own.
  EXPECT_TRUE(Eventually([&] { return descriptors() <= files; })) << descriptors();
  hf3fs_iovdestroy(&first);
}

TEST_F(GpuIov, GivesItsMemoryBackIfItCannotBePublished) {
  ASSERT_TRUE(hf3fs_gdr_available());
  const fake_cuda::Held before = fake_cuda::HeldNow();
  Untouched<hf3fs_iov> iov;
  const TemporaryFolder other;
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov.value, other.path().c_str(), kBytes, 0, 0), -ENOENT);
  EXPECT_EQ(fake_cuda::HeldNow().allocations, before.allocations);
  EXPECT_TRUE(iov.IsUntouched());
}

TEST_F(GpuIov, LeavesTheCallersContextAlone) {
  const size_t depth = fake_cuda::ContextDepth();
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 1), 0);
  EXPECT_EQ(hf3fs_iovsync_gpu(&iov, 1), 0);
  hf3fs_iovdestroy(&iov);
  EXPECT_EQ(fake_cuda::ContextDepth(), depth);
}

TEST_F(GpuIov, SynchronisesBothDirections) {
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 0), 0);
  EXPECT_EQ(hf3fs_iovsync_gpu(&iov, 0), 0);
  EXPECT_EQ(hf3fs_iovsync_gpu(&iov, 1), 0);
  EXPECT_EQ(hf3fs_iovsync(&iov, 0), 0);
  EXPECT_EQ(hf3fs_iovsync_gpu(&iov, 2), -EINVAL);
  hf3fs_iovdestroy(&iov);
}

TEST_F(GpuIov, HasNoHandleIfTheDriverGivesNone) {
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 0), 0);
  hf3fs_gpu_ipc_handle_t handle{};
  EXPECT_EQ(hf3fs_iov_export_gpu(&iov, &handle), -ENOTSUP);
  EXPECT_EQ(hf3fs_iov_export_gpu(&iov, nullptr), -EINVAL);
  hf3fs_iovdestroy(&iov);
}

TEST_F(GpuIovByIpc, IsPublishedWithItsHandle) {
  hf3fs_iov iov{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 0), 0);
  const auto uri = GpuUri::Parse(TargetOf(mount));
  ASSERT_TRUE(uri.has_value());
  EXPECT_NE(uri->ipc_handle, std::nullopt);
  EXPECT_GE(uri->allocation_bytes, uri->offset + kBytes);
  hf3fs_iovdestroy(&iov);
}

TEST_F(GpuIovByIpc, IsOpenedByItsId) {
  hf3fs_iov iov{}, opened{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 0), 0);
  const auto* const id = reinterpret_cast<const uint8_t*>(iov.id);
  EXPECT_EQ(hf3fs_iovopen_gpu(&opened, id, mount.path(), kBytes - 1, 0, 0), -EINVAL) << "another size";
  EXPECT_EQ(hf3fs_iovopen_gpu(&opened, id, mount.path(), kBytes, 0, 1), -ENOENT) << "another GPU";
  ASSERT_EQ(hf3fs_iovopen_device(&opened, id, mount.path(), kBytes, 0, 0), 0);
  EXPECT_EQ(opened.base, iov.base) << "in one process it is the same memory";
  EXPECT_TRUE(hf3fs_iov_is_gpu(&opened));
  hf3fs_iovdestroy(&opened);
  EXPECT_EQ(mount.Links().size(), 1u);
  hf3fs_iovdestroy(&iov);
}

TEST_F(GpuIovByIpc, IsOpenedOnTheMountThatHasIt) {
  const ServedMount second;
  const host::GpuMemory small(host::Gpu(0), 1 << 20), large(host::Gpu(0), 1 << 20);
  hf3fs_iov one{}, two{}, opened{};
  ASSERT_EQ(hf3fs_iovwrap_gpu(&one, small.data(), kId, mount.path(), 4096, 0, 0), 0);
  ASSERT_EQ(hf3fs_iovwrap_gpu(&two, large.data(), kId, second.path(), kBytes, 0, 0), 0);
  ASSERT_EQ(hf3fs_iovopen_gpu(&opened, kId, second.path(), kBytes, 0, 0), 0);
  EXPECT_EQ(opened.base, two.base);
  hf3fs_iovdestroy(&opened);
  ASSERT_EQ(hf3fs_iovopen_gpu(&opened, kId, mount.path(), 4096, 0, 0), 0);
  EXPECT_EQ(opened.base, one.base);
  for (hf3fs_iov* const iov : {&opened, &two, &one}) hf3fs_iovdestroy(iov);
}

TEST_F(GpuIovByIpc, RefusesADamagedLink) {
  hf3fs_iov iov{};
  const LinkName name{.id = {1, 2, 3}, .gpu = 0};
  const std::string link = mount.IovFolder() + "/" + name.ToString();
  for (const char* const target :
       {"/dev/shm/x", "gdr://v2/device/1/allocation/100000/offset/0/size/100000/dmabuf",
        "gdr://v2/device/0/allocation/100000/offset/1/size/100000/dmabuf"}) {
    std::filesystem::create_symlink(target, link);
    EXPECT_EQ(hf3fs_iovopen_gpu(&iov, kId, mount.path(), kBytes, 0, 0), -EINVAL) << target;
    std::filesystem::remove(link);
  }
  std::filesystem::create_symlink("gdr://v2/device/0/allocation/100000/offset/0/size/100000/dmabuf", link);
  EXPECT_EQ(hf3fs_iovopen_gpu(&iov, kId, mount.path(), kBytes, 0, 0), -ENOTSUP) << "no process can open it";
  std::filesystem::remove(link);
  const std::string zeros(128, '0');
  std::filesystem::create_symlink("gdr://v2/device/0/allocation/100000/offset/0/size/100000/ipc/" + zeros,
                                  link);
  EXPECT_EQ(hf3fs_iovopen_gpu(&iov, kId, mount.path(), kBytes, 0, 0), -EIO) << "the driver cannot";
}

TEST_F(GpuIovByIpc, TakesItsImportsWithIt) {
  hf3fs_iov iov{}, imported{};
  ASSERT_EQ(hf3fs_iovcreate_gpu(&iov, mount.path(), kBytes, 0, 0), 0);
  hf3fs_gpu_ipc_handle_t handle{};
  ASSERT_EQ(hf3fs_iov_export_gpu(&iov, &handle), 0);
  ASSERT_EQ(hf3fs_iov_import_gpu(&imported, &handle, mount.path()), 0);
  EXPECT_EQ(mount.Statistics().gpu_buffers, 2u);
  hf3fs_iovdestroy(&iov);
  EXPECT_EQ(mount.Statistics().gpu_buffers, 0u) << "the memory that both are of is gone";
  hf3fs_iovdestroy(&imported);
  EXPECT_TRUE(mount.Links().empty());
}

TEST_F(GpuIovByIpc, IsImportedFromItsHandle) {
  hf3fs_iov iov{}, imported{};
  const host::GpuMemory memory(host::Gpu(1), 1 << 20);
  ASSERT_EQ(hf3fs_iovwrap_gpu(&iov, memory.data() + 65536 + 77, kId, mount.path(), kBytes, 0, 1), 0);
  hf3fs_gpu_ipc_handle_t handle{};
  ASSERT_EQ(hf3fs_iov_export_gpu(&iov, &handle), 0);
  EXPECT_EQ(hf3fs_iov_import_gpu(&imported, &handle, ""), -EINVAL);
  ASSERT_EQ(hf3fs_iov_import_gpu(&imported, &handle, mount.path()), 0);
  EXPECT_EQ(imported.base, iov.base);
  EXPECT_EQ(imported.size, kBytes);
  EXPECT_EQ(hf3fs_iov_gpu_device(&imported), 1);
  EXPECT_NE(std::memcmp(imported.id, iov.id, 16), 0);
  EXPECT_EQ(mount.Statistics().gpu_buffers, 2u);
  handle.data[70] ^= 1;
  Untouched<hf3fs_iov> untouched;
  EXPECT_EQ(hf3fs_iov_import_gpu(&untouched.value, &handle, mount.path()), -EINVAL);
  EXPECT_TRUE(untouched.IsUntouched());
  hf3fs_iovdestroy(&imported);
  hf3fs_iovdestroy(&iov);
  EXPECT_TRUE(mount.Links().empty());
  EXPECT_EQ(mount.Statistics().gpu_buffers, 0u);
}

}  // namespace
}  // namespace warpverbs::inline v0_2::gpuio
