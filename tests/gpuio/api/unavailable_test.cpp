#include <gtest/gtest.h>

#include <cerrno>

#include "warpverbs/gpuio/hf3fs_usrbio_gdr.h"

/// A machine with a GPU, but without a NIC.
namespace {

TEST(Unavailable, SaysSoAndCreatesNothing) {
  EXPECT_FALSE(hf3fs_gdr_available());
  EXPECT_EQ(hf3fs_gdr_device_count(), 0);
  hf3fs_iov iov{};
  const uint8_t id[16] = {};
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov, "/mnt", 4096, 0, 0), -ENOTSUP);
  EXPECT_EQ(hf3fs_iovopen_gpu(&iov, id, "/mnt", 4096, 0, 0), -ENOTSUP);
  EXPECT_EQ(hf3fs_iovwrap_gpu(&iov, &iov, id, "/mnt", 4096, 0, 0), -ENOTSUP);
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov, "/mnt", 0, 0, 0), -EINVAL) << "arguments come first";
  EXPECT_EQ(hf3fs_iovcreate_gpu(&iov, "/mnt", 4096, 0, -1), -ENOTSUP);
}

}  // namespace
