#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <future>
#include <string>
#include <thread>

namespace ucma {
namespace {

constexpr uintptr_t kUnmapped = 4096;  // Linux maps no page this low

/// Whether a thread sleeps in the kernel.
bool Sleeps(pid_t thread) {
  std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(status, text, ')');
  status >> text;
  return text == "S";
}

int OpenDevice() { return open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC); }

/// Sends commands that no library would write.
class UcmaDevice : public testing::Test {
 protected:
  UcmaDevice() { EXPECT_GE(fd, 0) << strerror(errno); }
  ~UcmaDevice() override { close(fd); }

  /// @return  0, or the errno
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
  static int ResolveAddress(int to, uint32_t id) {
    rdma_ucm_resolve_ip body{};
    body.id = id;
    body.dst_addr.sin6_family = AF_INET6;
    body.dst_addr.sin6_addr = in6addr_loopback;
    return Run(to, RDMA_USER_CM_CMD_RESOLVE_IP, body);
  }
  static int Bind(int to, uint32_t id, uint16_t port) {
    rdma_ucm_bind_ip body{};
    body.id = id;
    body.addr.sin6_family = AF_INET6;
    body.addr.sin6_port = htons(port);
    return Run(to, RDMA_USER_CM_CMD_BIND_IP, body);
  }
  static int DestroyId(int to, uint32_t id) {
    rdma_ucm_destroy_id_resp response{};
    rdma_ucm_destroy_id body{};
    body.response = reinterpret_cast<uint64_t>(&response);
    body.id = id;
    return Run(to, RDMA_USER_CM_CMD_DESTROY_ID, body, sizeof response);
  }

  const int fd = OpenDevice();
  uint32_t number = 0;  ///< id that CreateId() last returned
  const uint64_t answer = reinterpret_cast<uint64_t>(&number);
};

TEST_F(UcmaDevice, RefusesMalformedCommands) {
  EXPECT_EQ(Write(fd, "", 1), EINVAL) << "no header";
  const rdma_ucm_cmd_hdr longer{RDMA_USER_CM_CMD_LISTEN, 100, 0};
  EXPECT_EQ(Write(fd, &longer, sizeof longer), EINVAL) << "the header announces more bytes than follow";
  EXPECT_EQ(Run(fd, RDMA_USER_CM_CMD_LISTEN, uint32_t{1}), EINVAL) << "too short";
  EXPECT_EQ(Run(fd, 0xffff, uint64_t{0}), ENOSYS);
  EXPECT_EQ(Write(fd, reinterpret_cast<const void*>(kUnmapped), 64), EFAULT);
}

TEST_F(UcmaDevice, RefusesIdsOfOtherFiles) {
  EXPECT_EQ(Listen(fd, 0xdead), ENOENT);
  ASSERT_EQ(CreateId(fd, answer, sizeof number), 0);
  const int other = OpenDevice();
  EXPECT_EQ(Listen(other, number), EINVAL);
  EXPECT_EQ(close(other), 0);
  EXPECT_EQ(Listen(fd, number), 0);
}

TEST_F(UcmaDevice, IsACharacterDevice) {
  struct stat status {};
  ASSERT_EQ(fstat(fd, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  const dev_t device = status.st_rdev;
  ASSERT_EQ(stat("/dev/infiniband/rdma_cm", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_EQ(status.st_rdev, device);
}

TEST_F(UcmaDevice, WorksThroughADuplicate) {
  const int duplicate = dup(fd);
  EXPECT_EQ(CreateId(duplicate, answer, sizeof number), 0);
  EXPECT_EQ(close(duplicate), 0);
  EXPECT_EQ(Listen(fd, number), 0);
}

TEST_F(UcmaDevice, FreesIdsOnClose) {
  const int other = OpenDevice();
  uint32_t bound = 0;
  ASSERT_EQ(CreateId(other, reinterpret_cast<uint64_t>(&bound), sizeof bound), 0);
  uint16_t port = 20000;  // other programs may own some
  while (Bind(other, bound, port) == EADDRNOTAVAIL) ++port;
  ASSERT_EQ(CreateId(fd, answer, sizeof number), 0);
  EXPECT_EQ(Bind(fd, number, port), EADDRNOTAVAIL);
  EXPECT_EQ(close(other), 0);
  EXPECT_EQ(Bind(fd, number, port), 0);
}

TEST_F(UcmaDevice, RefusesResponsesWithoutRoom) {
  EXPECT_EQ(CreateId(fd, answer, 2), ENOSPC);
  EXPECT_EQ(CreateId(fd, kUnmapped, sizeof number), EFAULT);
}

TEST_F(UcmaDevice, RefusesUnknownPortSpaces) {
  EXPECT_EQ(CreateId(fd, answer, sizeof number, RDMA_PS_IPOIB), EINVAL);
}

TEST_F(UcmaDevice, WaitOutlivesItsDescriptor) {
  for (int i = 0; i < 50; ++i) {
    const int duplicate = dup(fd);
    rdma_ucm_event_resp event{};
    const rdma_ucm_get_event command{.response = reinterpret_cast<uint64_t>(&event)};
    std::atomic<pid_t> thread = 0;
    auto waited = std::async(std::launch::async, [&] {
      thread = gettid();
      return Run(duplicate, RDMA_USER_CM_CMD_GET_EVENT, command, sizeof event);
    });
    while (thread == 0 || !Sleeps(thread)) std::this_thread::yield();
    EXPECT_EQ(close(duplicate), 0);
    // An event may be destroyed before the thread takes it. The thread then waits for the next one.
    while (waited.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      EXPECT_EQ(CreateId(fd, answer, sizeof number), 0);
      EXPECT_EQ(ResolveAddress(fd, number), 0);
      EXPECT_EQ(DestroyId(fd, number), 0);
    }
    ASSERT_EQ(waited.get(), 0);
    EXPECT_EQ(event.event, 0u) << "the address is resolved";
  }
}

TEST_F(UcmaDevice, PassesOtherWritesThrough) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(Write(ends[1], "abc", 3), 0);
  EXPECT_EQ(Write(ends[0], "abc", 3), EBADF) << "the read end of a pipe";
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(Write(-1, "abc", 3), EBADF);
}

}  // namespace
}  // namespace ucma
