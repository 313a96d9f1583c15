#include <gtest/gtest.h>

#include <cerrno>

#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"

#ifdef HF3FS_GDR_ENABLED
#error "this is the library without buffers in GPU memory"
#endif

// Another signature than the library's: compiles only where the header declares none.
extern "C" void hf3fs_iovopen_gpu(void);
extern "C" void hf3fs_iovwrap_gpu(void);

/// A machine with a GPU and a NIC, and a library that was built without ENABLE_GDR.
namespace {

TEST(WithoutGdr, CreatesNoBuffersInGpuMemory) {
  EXPECT_FALSE(hf3fs_gdr_available());
  EXPECT_EQ(hf3fs_gdr_device_count(), 0);
  hf3fs_iov iov{};
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov, "/mnt", 4096, 0, 0), -ENOTSUP);
  EXPECT_EQ(hf3fs_iovcreate_device(&iov, "/mnt", 4096, 0, 0), -ENOTSUP);
  hf3fs_gpu_ipc_handle_t handle{};
  EXPECT_EQ(hf3fs_iov_import_gpu(&iov, &handle, "/mnt"), -ENOTSUP);
  EXPECT_EQ(hf3fs_iov_export_gpu(&iov, &handle), -EINVAL);
  EXPECT_EQ(hf3fs_iovsync_gpu(&iov, 0), 0);
  EXPECT_FALSE(hf3fs_iov_is_gpu(&iov));
  hf3fs_iovdestroy_gpu(&iov);
}

}  // namespace
