#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

namespace ucma {
namespace {

constexpr uintptr_t kUnmapped = 4096;  // Linux maps nothing that low

int OpenDevice() { return open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC); }

/// What no library would write.
class Commands : public testing::Test {
 protected:
  Commands() { EXPECT_GE(fd, 0) << strerror(errno); }
  ~Commands() override { close(fd); }

  /// @return  the error; 0 for success
  static int Write(int to, const void* data, size_t bytes) {
    errno = 0;
    return write(to, data, bytes) == static_cast<ssize_t>(bytes) ? 0 : errno;
  }
  template <class Body>
  static int Run(int to, uint32_t command, const Body& body, uint16_t room = 0) {
    const struct {
      rdma_ucm_cmd_hdr header;
      Body body;
    } request{{command, sizeof body, room}, body};
    return Write(to, &request, sizeof request);
  }
  static int CreateId(int to, uint64_t response, uint16_t room, uint16_t space = RDMA_PS_TCP) {
    rdma_ucm_create_id body{};
    body.uid = 1;
    body.response = response;
    body.ps = space;
    return Run(to, RDMA_USER_CM_CMD_CREATE_ID, body, room);
  }
  static int Listen(int to, uint32_t id) {
    return Run(to, RDMA_USER_CM_CMD_LISTEN, rdma_ucm_listen{.id = id, .backlog = 1});
  }

  const int fd = OpenDevice();
  uint32_t number = 0;  ///< of an id
  const uint64_t answer = reinterpret_cast<uint64_t>(&number);
};

TEST_F(Commands, MalformedOnesAreRefused) {
  EXPECT_EQ(Write(fd, "", 1), EINVAL) << "no header";
  const rdma_ucm_cmd_hdr longer{RDMA_USER_CM_CMD_LISTEN, 100, 0};
  EXPECT_EQ(Write(fd, &longer, sizeof longer), EINVAL) << "more announced than there is";
  EXPECT_EQ(Run(fd, RDMA_USER_CM_CMD_LISTEN, uint32_t{1}), EINVAL) << "too short";
  EXPECT_EQ(Run(fd, 0xffff, uint64_t{0}), ENOSYS);
  EXPECT_EQ(Write(fd, reinterpret_cast<const void*>(kUnmapped), 64), EFAULT);
}

TEST_F(Commands, ForeignIdsAreRefused) {
  EXPECT_EQ(Listen(fd, 0xdead), ENOENT);
  ASSERT_EQ(CreateId(fd, answer, sizeof number), 0);
  const int other = OpenDevice();
  EXPECT_EQ(Listen(other, number), EINVAL);
  EXPECT_EQ(close(other), 0);
  EXPECT_EQ(Listen(fd, number), 0);
}

TEST_F(Commands, DeviceIsACharacterDevice) {
  struct stat status {};
  ASSERT_EQ(fstat(fd, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  const dev_t device = status.st_rdev;
  ASSERT_EQ(stat("/dev/infiniband/rdma_cm", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(status.st_rdev, device);
}

TEST_F(Commands, DuplicatesServeAsWell) {
  const int duplicate = dup(fd);
  EXPECT_EQ(CreateId(duplicate, answer, sizeof number), 0);
  EXPECT_EQ(close(duplicate), 0);
  EXPECT_EQ(Listen(fd, number), 0);
}

TEST_F(Commands, AnswersNeedRoom) {
  EXPECT_EQ(CreateId(fd, answer, 2), ENOSPC);
  EXPECT_EQ(CreateId(fd, kUnmapped, sizeof number), EFAULT);
}

TEST_F(Commands, UnknownPortSpacesAreRefused) {
  EXPECT_EQ(CreateId(fd, answer, sizeof number, RDMA_PS_IPOIB), EINVAL);
}

TEST_F(Commands, OtherWritesPassThrough) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(Write(ends[1], "abc", 3), 0);
  EXPECT_EQ(Write(ends[0], "abc", 3), EBADF) << "the reading end of somebody's pipe";
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(Write(-1, "abc", 3), EBADF);
}

}  // namespace
}  // namespace ucma
